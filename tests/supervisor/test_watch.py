"""The loop around the children: lines passed on, the dead restarted, everything stopped in reverse."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from takeover.supervisor import CannotStart
from takeover.supervisor.children import Child
from takeover.supervisor.installation import Installation
from takeover.supervisor.watch import StopRequested, Watch


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    watch = Watch(Installation(tmp_path))
    yield watch
    watch.bring_down()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def child(name: str, code: str, **options: object) -> Child:
    return Child(name, [sys.executable, "-uc", code], dict(os.environ), **options)  # type: ignore[arg-type]


def attend_until(watch: Watch, happened: Callable[[], bool]) -> None:
    """The watch attends until somebody asks it to stop, so an alarm looks and asks."""

    def look(*_: object) -> None:
        if happened():
            watch._request_stop()

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        with pytest.raises(StopRequested):
            watch.attend()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_lines_are_passed_on_with_the_name_in_front(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    watch.run(child("talker", "print('one'); print('two', end='')", restarts=False))

    assert capsys.readouterr().out == "talker     | one\ntalker     | two\n"


def test_a_child_that_ends_before_it_is_ready_says_why(watch: Watch) -> None:
    with pytest.raises(CannotStart, match="server ended before it was ready: no room"):
        watch.bring_up([child("server", "import sys; sys.exit('no room')", is_ready=lambda: False)])


def test_a_child_that_dies_is_started_again_after_a_pause_that_grows(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(watch, "say", lambda name, line: said.append(line))
    starts = tmp_path / "starts"
    mortal = child("mortal", f"open({str(starts)!r}, 'a').write('x'); import time; time.sleep(0.3)")

    watch.bring_up([mortal])
    attend_until(watch, lambda: len(said) == 2)

    assert said == [f"mortal ended with 0; starting it again in {pause} s" for pause in (1, 2)]
    assert starts.read_text().startswith("xx")


def test_groups_stop_in_reverse(watch: Watch, tmp_path: Path) -> None:
    order = tmp_path / "order"
    for name in ("first", "second"):
        marker = tmp_path / f"{name}.ready"
        farewell = f"lambda *_: (open({str(order)!r}, 'a').write({name + ' '!r}), sys.exit())"
        code = f"import signal, sys, time; signal.signal(15, {farewell}); open({str(marker)!r}, 'w'); time.sleep(60)"
        watch.bring_up([child(name, code, marker=marker)])

    watch.bring_down()

    assert order.read_text() == "second first "


def test_a_request_to_stop_interrupts_the_wait_for_readiness(watch: Watch) -> None:
    os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StopRequested):
        watch.bring_up([child("slow", "import time; time.sleep(60)", is_ready=lambda: False)])
