"""A pytest plugin (``-p xtask_report``) that reports tests in the format of `cargo xtask test`:
``FAILED NAME: REASON`` and ``skipped: NAME: REASON`` for each, then the closing line.
"""

passed: set[str] = set()
failed: dict[str, str] = {}
skipped: dict[str, str] = {}


def pytest_collectreport(report):
    if report.failed:
        failed[report.nodeid or "collection"] = str(report.longrepr)


def pytest_runtest_logreport(report):
    # A test has a setup, a call and a teardown; it counts once.
    if report.failed:
        failed.setdefault(report.nodeid, f"{report.when}: {report.longreprtext}")
    elif report.skipped:
        skipped[report.nodeid] = (
            report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        )
    elif report.when == "call":
        passed.add(report.nodeid)


def pytest_unconfigure():
    print()
    for name, why in failed.items():
        # The last line of a traceback has the error.
        lines = why.strip().splitlines()
        print(f"FAILED {name}: " + "\n".join([lines[-1], *lines[-30:-1]]))
    for name, why in skipped.items():
        print(f"skipped: {name}: {why}")
    print(
        f"{len(passed - set(failed))} passed, {len(failed)} failed, {len(skipped)} skipped",
        flush=True,
    )
