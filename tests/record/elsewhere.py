"""Run by test_restore.py in a database cluster of its own: load a dump, go on writing, say what became of it all."""

import json
import os
import subprocess
import sys

import django


def main(pg_restore: str, dump: str) -> None:
    from runs.engine.audit import verify
    from runs.engine.seal import not_sealed, seal
    from runs.models import Event, Seal

    subprocess.run([pg_restore, "--no-owner", "-d", os.environ["DATABASE_URL"], dump], check=True)
    for kind in ("new here", "new as well"):
        Event.objects.record(None, kind, None)
    restored = verify()
    while seal():
        pass
    after = verify()
    found = {
        "transactions": list(Event.objects.order_by("id").values_list("transaction_id", flat=True)),
        "restored": [restored.broken, restored.sealed, restored.not_sealed],
        "sealed": [after.broken, after.sealed, after.not_sealed, not_sealed().count()],
        "seals": [[seal.first_event, seal.last_event] for seal in Seal.objects.all()],
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "takeover.settings"
    django.setup()
    main(*sys.argv[1:])
