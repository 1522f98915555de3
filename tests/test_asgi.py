"""The web server's process, once it can answer."""

import gc


def test_what_the_server_is_made_of_is_not_looked_through_for_rubbish_while_it_answers() -> None:
    import takeover.asgi  # noqa: F401

    assert gc.get_freeze_count() > 10_000
