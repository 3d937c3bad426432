"""Who may ask the dashboard what."""

from __future__ import annotations

import http.client
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from briskrl.web.assets import STATIC, Assets
from briskrl.web.security import HEADERS, Access
from tests.web.dashboards import dashboard, get_json, ids_of, make_run

TOKEN = "a-token-of-this-test"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "runs"
    make_run(folder / "one")
    (folder.parent / "secret.txt").write_text("a secret")
    (folder / "one" / "secret.txt").write_text("a secret")
    (folder / "one" / "notes.md").symlink_to("/etc/hostname")
    return folder


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    with dashboard(root) as address:
        yield address


@pytest.fixture(scope="module")
def guarded(root: Path) -> Iterator[str]:
    with dashboard(root, "--token", TOKEN) as address:
        yield address.partition("?")[0]


def ask(url: str, path: str = "/", method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    """An answer to a request whose path is sent as it is; its body is read."""
    split = urlsplit(url)
    connection = http.client.HTTPConnection(split.hostname or "", split.port or 0, timeout=20)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.body = answer.read()  # type: ignore[attr-defined]
    connection.close()
    return answer


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:7450", "127.0.0.1.evil.example", "localhost.evil.example",
        "192.168.0.7", "0.0.0.0", "[::]", "[::1", "localhost:", "localhost:80:80", "localhost:8o",
        "user@localhost", "", "127.0.0.1/", "%6cocalhost",
    ],
)  # fmt: skip
def test_a_foreign_host_is_refused(url: str, host: str) -> None:
    assert ask(url, Host=host).status == 403
    assert ask(url, "/api/runs", Host=host).status == 403


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "localhost:9000", "[::1]:80", "LocalHost"]
)
def test_the_own_names_are_served_on_any_port_because_of_tunnels(url: str, host: str) -> None:
    assert ask(url, Host=host).status == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example", 403), ("null", 403), ("https://localhost", 403),
        ("http://localhost:9", 403), ("", 403), ("http://localhost:9000", 200),
    ],
)  # fmt: skip
def test_only_the_own_origin_may_ask(url: str, origin: str, status: int) -> None:
    assert ask(url, "/api/runs", Host="localhost:9000", Origin=origin).status == status


def test_requests_that_other_sites_start_are_refused_except_opening_the_page(url: str) -> None:
    for site in ("cross-site", "same-site"):
        assert ask(url, "/api/runs", Sec_Fetch_Site=site).status == 403
        assert ask(url, "/", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors").status == 403
        assert ask(url, "/", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate").status == 200
    assert ask(url, "/api/runs", Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "BREW"]
)
def test_only_get_and_head_are_allowed(url: str, method: str) -> None:
    for path in ("/", "/api/runs", "/static/js/main.js", "/api/play/start", "/nothing"):
        answer = ask(url, path, method)
        assert (answer.status, answer.getheader("allow")) == (405, "GET, HEAD")


def test_head_answers_like_get_without_a_body(url: str) -> None:
    answer = ask(url, "/api/runs", "HEAD")
    assert (answer.status, answer.body) == (200, b"")  # type: ignore[attr-defined]


def test_every_answer_has_the_headers(url: str) -> None:
    answers = [
        ask(url), ask(url, "/static/js/main.js"), ask(url, "/api/runs"), ask(url, "/nothing"),
        ask(url, Host="evil.example"), ask(url, "/", "POST"),
    ]  # fmt: skip
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.getheader(name.decode()) == value.decode()
        assert answer.getheader("access-control-allow-origin") is None
        assert answer.getheader("cache-control") in ("no-store", "no-cache")
        assert answer.getheader("server") is None


def test_the_page_needs_nothing_that_its_policy_forbids() -> None:
    page = (STATIC / "index.html").read_text()
    policy = HEADERS[b"content-security-policy"].decode()
    assert "unsafe" not in policy
    assert "style=" not in page
    assert " on" not in page.replace(" one", "").partition("<body>")[2].partition("</body>")[0]
    assert page.count("<script") == page.count("<script src=") + page.count(
        '<script type="module" src='
    )
    assert "http://" not in page
    assert "https://" not in page


def traversals(run_id: str) -> list[str]:
    """Paths that would leave a folder if any name became a path."""
    ups = [
        "..", "%2e%2e", "%2E%2E", ".%2e", "%252e%252e", "..%00", "%c0%ae%c0%ae", "..%5c", "....",
        "..;", "%u002e%u002e", "\uff0e\uff0e",
    ]  # fmt: skip
    slashes = ["/", "%2f", "%5c", "%252f", "//"]
    targets = ["secret.txt", "etc/passwd", "config.toml"]
    tails = [
        quote(up, safe="%;") + slash + target
        for up in ups
        for slash in slashes
        for target in targets
    ]
    bases = ("/static/", "/api/runs/", f"/api/runs/{run_id}/files/", "/static/js/", "/")
    forms = [bases[at % len(bases)] + tail for at, tail in enumerate(tails)]
    forms += [
        "/static//etc/passwd", "/static/%2fetc%2fpasswd", "//etc/passwd", "/etc/passwd",
        f"/api/runs/{run_id}/files/secret.txt", f"/api/runs/{run_id}/files/config.toml",
        f"/api/runs/{run_id}/files/", f"/api/runs/{run_id}/../secret.txt", "/static/../app.py",
        "/static/vendor/uplot/LICENSE", "/static/", "/static/js", "/static/js/", "/static/.",
        "/static/js/main.js/", "/static/js//main.js", "/static/JS/main.js", "/static/js/main.js%00",
        "/static/js\\main.js", "/static/%6as/../index.html%00.png", "/api/runs/%00/files",
        f"/api/runs/{run_id}%2f..%2f..%2fsecret.txt", f"/api/runs/{run_id}%00/files",
        "/api/runs/one/files", "/api/runs/./files", "/api/runs/~root/files", "/~root/",
        "/.git/config",
    ]  # fmt: skip
    return forms


def test_two_hundred_forms_of_traversal_find_nothing(url: str) -> None:
    forms = traversals(ids_of(url)["one"])
    assert len(set(forms)) >= 200
    for form in forms:
        answer = ask(
            url, form.replace("\\", "%5c") if "\\" in form else form.encode().decode("latin-1")
        )
        assert answer.status in (400, 404), (form, answer.status)
        body = answer.body  # type: ignore[attr-defined]
        assert b"a secret" not in body, form
        assert b"root:" not in body, form


def test_a_link_to_a_file_elsewhere_is_read_only_if_it_is_one_of_the_known_names(url: str) -> None:
    # A run folder may be a copy with links, as `brisk runs` allows; but no name is made up.
    run_id = ids_of(url)["one"]
    texts = [file["key"] for file in get_json(f"{url}api/runs/{run_id}/files")["texts"]]
    assert set(texts) <= {"config", "notes", "status", "meta"}


def test_malformed_requests_are_answered_or_closed(url: str) -> None:
    split = urlsplit(url)
    heads = [
        b"GET\r\n\r\n", b"\x00\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ]  # fmt: skip
    for head in heads:
        with socket.create_connection(
            (split.hostname or "", split.port or 0), timeout=20
        ) as client:
            answer = b""
            # The server may answer, or close the connection, before it has read everything.
            with suppress(ConnectionError):
                client.sendall(head)
            with suppress(ConnectionError):
                answer = client.recv(4096)
        assert not answer.startswith(b"HTTP/1.1 2"), head[:60]
    assert ask(url).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/api/runs", "/api/events", "/static/js/main.js", "/nothing"]
)
def test_without_the_token_nothing_is_served(guarded: str, path: str) -> None:
    assert ask(guarded, path).status == 401
    assert ask(guarded, path, Authorization="Bearer wrong").status == 401
    assert ask(guarded, path, Authorization=f"Basic {TOKEN}").status == 401
    assert ask(guarded, path, Cookie=f"brisk-dash-{urlsplit(guarded).port}={TOKEN}").status == 401
    assert ask(guarded, path, Cookie="a=b; c").status == 401


def test_the_token_in_the_address_becomes_a_cookie(guarded: str) -> None:
    answer = ask(guarded, f"/?token={TOKEN}")
    assert answer.status == 200
    cookie = answer.getheader("set-cookie") or ""
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert ask(guarded, "/api/runs", Cookie=cookie.partition(";")[0]).status == 200


def test_the_token_in_the_address_is_for_the_page_only(guarded: str) -> None:
    assert ask(guarded, f"/api/runs?token={TOKEN}").status == 401
    assert ask(guarded, "/?token=wrong").status == 401
    assert ask(guarded, "/?token=wrong").getheader("set-cookie") is None


def test_programs_send_the_token_in_a_header(guarded: str) -> None:
    assert ask(guarded, "/api/runs", Authorization=f"Bearer {TOKEN}").status == 200


def test_other_addresses_get_a_token_and_serve_addresses_but_no_foreign_names(root: Path) -> None:
    with dashboard(root, "--host", "0.0.0.0") as address:
        assert "?token=" in address
        token = address.partition("?token=")[2]
        port = urlsplit(address).port
        local = f"http://127.0.0.1:{port}/"
        assert ask(local).status == 401
        header = {"Authorization": f"Bearer {token}"}
        assert ask(local, **header).status == 200
        assert ask(local, Host="10.1.2.3", **header).status == 200
        assert ask(local, Host=socket.gethostname(), **header).status == 200
        assert ask(local, Host="evil.example", **header).status == 403


def test_hosts_of_a_server_on_another_address() -> None:
    access = Access("dash.internal", 80, "t")
    assert access.allows_host("dash.internal:80")
    assert access.allows_host("[fe80::1]")
    assert not access.allows_host("evil.example")


def test_looking_changes_nothing_in_the_folder(url: str, root: Path) -> None:
    def state() -> list[tuple[str, int, int]]:
        found = []
        for path in sorted(root.rglob("*")):
            status = path.lstat()
            modified = 0 if stat.S_ISLNK(status.st_mode) else status.st_mtime_ns
            found.append((str(path), status.st_size, modified))
        return found

    before = state()
    run_id = ids_of(url)["one"]
    for path in ("phases", "doctor", "files", "files/config"):
        get_json(f"{url}api/runs/{run_id}/{path}")
    for path in (
        f"curves?run={run_id}&x=wall_s",
        f"differences?run={run_id}",
        "settings",
        "sweeps",
    ):
        get_json(f"{url}api/{path}")
    assert state() == before


def test_folders_that_cannot_be_written_are_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "one")
    for path in (*run.iterdir(), run):
        os.chmod(path, stat.S_IRUSR | (stat.S_IXUSR if path.is_dir() else 0))
    with dashboard(tmp_path / "runs") as url:
        run_id = ids_of(url)["one"]
        assert get_json(f"{url}api/curves?run={run_id}")["charts"]
    os.chmod(run, 0o700)


def test_slow_clients_do_not_stop_others(url: str) -> None:
    split = urlsplit(url)
    address = (split.hostname or "", split.port or 0)
    clients = []
    try:
        for number in range(40):
            client = socket.create_connection(address, timeout=20)
            clients.append(client)
            if number % 2:
                client.sendall(b"GET / HTTP/1.1\r\nHost: loc")
            else:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                client.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert len(get_json(url + "api/runs")["runs"]) == 1
    finally:
        for client in clients:
            client.close()


def test_licenses_are_kept_but_not_served() -> None:
    assert (STATIC / "vendor" / "uplot" / "LICENSE").is_file()
    assert not any(name.endswith("LICENSE") for name in Assets().names)
