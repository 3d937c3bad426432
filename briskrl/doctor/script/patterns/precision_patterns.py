"""Networks that learn with more precise numbers than they need."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from briskrl.doctor.report.records import Finding
from briskrl.doctor.script.costs import Costs, without
from briskrl.doctor.script.network_costs import layers_of, update_s
from briskrl.doctor.script.patterns import fixes
from briskrl.doctor.script.source import called_name

DOUBLE = "torch.float64"
MOSTLY = 0.5
"""Share of the batches in double precision from which it counts."""
ASKED = re.compile(r"float64|\bdouble\b|np\.float_\b")


def precision_findings(costs: Costs) -> Iterator[Finding]:
    """Learning in double precision."""
    seen, layers = costs.seen, layers_of(costs.seen)
    dtypes = seen.state.get("dtypes")
    if not isinstance(dtypes, Mapping) or not layers or seen.batch_size is None:
        return
    if dtypes.get(DOUBLE, 0) <= MOSTLY * sum(dtypes.values()):
        return
    share = seen.share("update")
    double = update_s(layers, seen.batch_size, double=True)
    single = update_s(layers, seen.batch_size)
    lines = (
        costs.asking(lambda call: called_name(call).endswith("set_default_dtype"))
        or costs.asking(lambda call: ASKED.search(ast.unparse(call)) is not None)
        or costs.hottest(lambda item: item.phase == "update")
    )
    yield Finding(
        cause="dtype",
        title="networks compute in double precision",
        evidence=(
            f"learning takes {100 * share:.0f} % of the time; an update of these layers takes "
            f"{1e6 * double:,.0f} us in float64 and {1e6 * single:,.0f} us in float32 here",
        ),
        advice="use float32 for networks and batches, as nearly all published results do",
        gain=without(share * max(0.0, 1 - single / double), seen.total),
        basis="predicted",
        alters_learning="7 digits instead of 16; no difference is known for RL",
        location="" if lines is None else lines.location,
        source="" if lines is None else costs.text(lines),
        fix=fixes.SINGLE_PRECISION,
    )
