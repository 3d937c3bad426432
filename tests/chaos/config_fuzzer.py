"""Random config files and command lines, right and wrong, drawn from the config classes."""

from __future__ import annotations

import json
import math
import random
import string
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import tomli_w
import yaml
from msgspec import Meta

from briskrl.algos.registry import ALGOS
from briskrl.cli.flags import flag_name
from briskrl.core.aliases import field_aliases, names_without_equivalent
from briskrl.core.config import field_hints
from briskrl.core.text_values import show
from briskrl.envs.registry import ENVS
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import algo_config_class, env_config_class

JUNK: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**64), 10**400, 0.0, -0.5, 1e-320, 1e308),
    *(float("nan"), float("inf"), "", " ", "none", "auto", "1e6", "0x10", "²", "snake", "ü"),
    *("\uff11\uff12", "\x00", "\x1b[31m", "\ud800", "a" * 5000, "../..", "{}", "[1", "=", ","),
    *("--", "-1", [], [[]], [None], [1, "a"], {}, {"a": {"b": {}}}, {"": 0}, b"\xff", ["x"] * 100),
]
"""Values that are wrong for most fields, or odd for all."""

ENV_NAMES = ["snake", "cartpole", "cage2", "wildfire", "gym:CartPole-v1", "gym:a:B-v0", "given"]

TEXTS = {
    "body": ["auto", "mlp", "cnn", "nature", "fcn"],
    "stop_at": ["score=3", "return=-1.5", "wins=0.5"],
}
"""Possible values of fields whose type is any text."""


class ConfigFuzzer:
    """Draws configs; equal seeds draw equal ones."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.makes_mistakes = True

    def document(self) -> dict[Any, Any]:
        """Settings of a run as a file holds them: mostly right, with a few mistakes."""
        rng = self.rng
        self.makes_mistakes = rng.random() < 0.8
        env, algo = rng.choice([*ENV_NAMES, "snaek"]), rng.choice([*ALGOS, "dnq"])
        found: dict[Any, Any] = {"env": env, "algo": algo} if rng.random() < 0.9 else {}
        found |= self._combined(self._table(TrainConfig))
        for name, cls in (("env_config", self._env_class(env)), ("algo_config", _algo_class(algo))):
            if cls is None or rng.random() < 0.02:
                found[name] = self._junk()
            elif rng.random() < 0.7:
                found[name] = self._table(cls)
        if rng.random() < 0.1:
            found["curriculum"] = [self._stage(env) for _ in range(rng.randrange(3))]
        if rng.random() < 0.05:
            found[self._word()] = self._junk()
        return found

    def file(self) -> tuple[str, bytes]:
        """The suffix and content of a config file, sometimes damaged."""
        rng, document = self.rng, self.document()
        suffix = rng.choice([".toml", ".json", ".yaml"])
        data = _serialized(suffix, document)
        if data is None:
            suffix, data = ".json", json.dumps(document, default=str).encode("utf-8", "replace")
        return suffix, self._damaged(data) if rng.random() < 0.4 else data

    def words(self) -> list[str]:
        """Arguments of `brisk train`, without those that print a help text."""
        rng, document = self.rng, self.document()
        words = [str(document.pop("env", "snake"))]
        for name in ("env_config", "algo_config"):
            table = document.pop(name, {})
            document |= table if isinstance(table, dict) else {}
        for name, value in document.items():
            flag = flag_name(str(name))
            if isinstance(value, bool) and rng.random() < 0.9:
                words.append(flag if value else "--no-" + flag[2:])
            elif rng.random() < 0.9:
                words += (
                    [f"{flag}={_typed(value)}"] if rng.random() < 0.3 else [flag, _typed(value)]
                )
            else:
                words.append(flag)
        if rng.random() < 0.15:
            words.insert(
                rng.randrange(len(words) + 1), rng.choice(["--", "-", "--=", "", "-x", "²"])
            )
        return [word.replace("\x00", "") for word in words if word not in ("-h", "--help")]

    def startable(self) -> dict[str, Any]:
        """Settings of a short run on small environments; nothing in them is slow."""
        rng = self.rng
        env = rng.choice(["snake", "snake", "cartpole", "cage2", "gym:CartPole-v1", "wildfire"])
        algo = rng.choice(list(ALGOS))
        found: dict[str, Any] = self._valid(TrainConfig, SLOW) | {"env": env, "algo": algo}
        found["env_config"] = self._valid(self._env_class(env), SLOW_ENV) | SMALL_ENV.get(env, {})
        found["algo_config"] = self._valid(_algo_class(algo), SLOW_ALGO) | self._small_algo(algo)
        found |= {"num_envs": rng.choice([1, 2, 3, 8, 16]), "steps": rng.choice([1, 40, 150])}
        found |= {"warmup": rng.random() < 0.05, "engine": rng.choice(["auto", "fused", "torch"])}
        found |= {"threads": rng.choice([1, 1, 2]), "overlap": rng.random() < 0.2}
        return found

    def _small_algo(self, algo: str) -> dict[str, Any]:
        rng = self.rng
        found: dict[str, Any] = {"net": [rng.choice([1, 8, 16]) for _ in range(rng.choice([1, 2]))]}
        if ALGOS.get(algo).config.endswith("DQNConfig"):
            found |= {
                "batch_size": rng.choice([1, 8, 32]),
                "buffer_size": rng.choice([32, 64, 500]),
            }
            found |= {"learning_starts": rng.choice([0, 20]), "n_step": rng.choice([1, 1, 3])}
            found |= {"train_steps_ratio": rng.choice([0.1, 0.5, 1.0, 0.03125])}
        else:
            found |= {
                "update_steps": rng.choice([1, 4, 8]),
                "minibatch_size": rng.choice([1, 8, 64]),
            }
            found |= {"epochs": rng.choice([1, 2])}
        return found

    def _valid(self, cls: type | None, left_out: frozenset[str]) -> dict[str, Any]:
        """Values of the right types for some fields."""
        assert cls is not None
        hints = {name: hint for name, hint in field_hints(cls).items() if name not in left_out}
        chosen = self.rng.sample(list(hints), self.rng.randrange(min(7, len(hints) + 1)))
        found = {name: self._value(hints[name], small=True) for name in chosen}
        return {name: value for name, value in found.items() if value is not None}

    def _env_class(self, env: str) -> type | None:
        return env_config_class(env) if env in ENVS else None

    def _table(self, cls: type) -> dict[Any, Any]:
        rng = self.rng
        hints = field_hints(cls)
        other = [*field_aliases(cls), *names_without_equivalent(cls)]
        found: dict[Any, Any] = {}
        for _ in range(rng.randrange(7)):
            if not hints:
                break
            name = rng.choice(list(hints))
            value = self._junk() if self._errs(0.15) else self._value(hints[name])
            if name in TEXTS and rng.random() < 0.8:
                value = rng.choice(TEXTS[name])
            if other and self._errs(0.1):
                name = rng.choice(other)
            elif self._errs(0.04):
                name = self._misspelled(name)
            found[name] = value
        return found

    def _combined(self, found: dict[Any, Any]) -> dict[Any, Any]:
        """The settings of a run, mostly with others that they need."""
        rng = self.rng
        if "stop_at" in found and rng.random() < 0.8:
            found["eval_every"] = rng.choice([1, 500, 10**6])
        if "replicas" in found and rng.random() < 0.8:
            replicas = rng.choice([1, 2, 4])
            found |= {"replicas": replicas, "num_envs": replicas * rng.choice([1, 8, 32])}
        return found

    def _errs(self, share: float) -> bool:
        """Whether to make a mistake, which this share of the chances has in most documents."""
        return self.rng.random() < share and self.makes_mistakes

    def _stage(self, env: str) -> Any:
        cls = self._env_class(env)
        stage = self._junk() if cls is None else self._table(cls)
        return {"env": stage, "until": "steps", "value": self.rng.choice([5, 0, 1e9, "x"])}

    def _junk(self) -> Any:
        return self.rng.choice(JUNK)

    def _word(self) -> str:
        letters = string.ascii_letters + string.digits + "_-.[]\"' \t=#:ü"
        return "".join(self.rng.choices(letters, k=self.rng.randrange(12)))

    def _misspelled(self, name: str) -> str:
        at = self.rng.randrange(len(name))
        return name[:at] + self.rng.choice(["", "x", "_", name[at] * 2]) + name[at + 1 :]

    def _value(self, hint: Any, *, small: bool = False) -> Any:
        """A value of an annotated type, at the ends of its range now and then."""
        rng, meta = self.rng, Meta()
        if get_origin(hint) is Annotated:
            hint, meta = get_args(hint)[:2]
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return self._value(rng.choice(args), small=small)
        if origin is Literal:
            return rng.choice(args)
        if origin is tuple:
            many = args[-1] is Ellipsis
            count = rng.randrange(meta.min_length or 0, 4) if many else len(args)
            return [self._value(args[0], small=small) for _ in range(count)]
        if hint is int:
            low = meta.ge if meta.ge is not None else -4
            high = min(meta.le if meta.le is not None else 2**40, 40 if small else 2**40)
            return rng.choice([low, max(low, high), rng.randint(int(low), int(max(low, high)))])
        if hint is float:
            return self._float(meta)
        if hint is bool:
            return rng.random() < 0.5
        return {str: self._word(), types.NoneType: None}.get(hint)

    def _float(self, meta: Meta) -> float:
        rng = self.rng
        low = meta.ge if meta.ge is not None else (1e-9 if meta.gt is not None else -100.0)
        high = meta.le if meta.le is not None else 1000.0
        if meta.lt is not None:
            high = math.nextafter(meta.lt, low)
        return rng.choice([float(low), float(high), rng.uniform(low, high), rng.uniform(low, 1.0)])

    def _damaged(self, data: bytes) -> bytes:
        rng, out = self.rng, bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 5, 20])):
            at = rng.randrange(len(out) + 1)
            kind = rng.randrange(5)
            if kind == 0:
                del out[at : at + rng.choice([1, 3, 50])]
            elif kind == 1:
                out[at:at] = rng.choice(DAMAGE)
            elif kind == 2:
                out[at : at + 1] = bytes([rng.randrange(256)])
            elif kind == 3:
                out[at:at] = out[at : at + 40]
            else:
                del out[at:]
        return bytes(out)


DAMAGE = [
    *(b"[", b"]", b"{", b"}", b'"', b"'", b"=", b":", b"\n", b"\r", b"\t", b"\x00", b"\xff", b"#"),
    *(b"[[[[" * 50, b"{" * 3000, b"&a [*a, *a]", b"!!python/object:os.system x", b"- ", b"<<: *b"),
    *(b"1979-05-27T07:32:00Z", b"9" * 5000, b"-" * 100, b"\xef\xbb\xbf", b"[env_config]\n", b"%"),
]
SLOW = frozenset(
    {"env", "algo", "env_config", "algo_config", "curriculum", "run_dir", "device", "compile"}
    | {"num_envs", "steps", "episodes", "max_episodes", "threads", "warmup", "tensorboard"}
    | {"checkpoint_steps", "engine", "overlap"}
)
SLOW_ENV = frozenset(
    {"backend", "workers", "packages", "env_args", "landscape", "source", "obs_channels", "plan"}
    | {"height", "width", "landscapes", "n_weather", "obs_fires", "plan_fires", "n_fires", "split"}
    | {"teacher_plans", "teacher_keep", "teacher_fires", "first_landscape", "duration_min"}
)
SLOW_ALGO = frozenset(
    {"net", "channels", "batch_size", "buffer_size", "learning_starts", "n_step", "pretrain_from"}
    | {"pretrain_steps", "pretrain_transitions", "train_steps_ratio", "update_steps", "epochs"}
    | {"minibatch_size", "body", "atoms", "reuse"}
)
"""Fields that `startable` leaves out or sets itself, because random values would be slow."""
SMALL_ENV: dict[str, dict[str, Any]] = {
    "snake": {"height": 6, "width": 6},
    "wildfire": {
        **{"height": 8, "width": 8, "landscapes": 1, "n_fires": 4, "n_weather": 2},
        **{"obs_fires": 4, "plan_fires": 8},
    },
    "gym:CartPole-v1": {"backend": "compiled"},
}


def _algo_class(algo: str) -> type | None:
    return algo_config_class(algo) if algo in ALGOS else None


def _serialized(suffix: str, document: dict[Any, Any]) -> bytes | None:
    """The document as text of a format; None if the format cannot hold it."""
    try:
        if suffix == ".toml":
            return tomli_w.dumps(document).encode()
        if suffix == ".yaml":
            return str(yaml.dump(document)).encode()
        return json.dumps(document).encode()
    except (TypeError, ValueError, AttributeError, yaml.YAMLError):
        return None


def _typed(value: Any) -> str:
    """A value as it is typed after its flag."""
    try:
        return show(value)
    except TypeError:
        return str(value)
