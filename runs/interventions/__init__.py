"""Everything a person may do to a run: the only door for writes from above (screens, command line, API).

A person never edits a run. They start it, claim the case, and send events, which a worker carries out. All of it is
recorded, and so is what was refused. Services have one door of their own, and less to say. Lock order: the run's row,
then its inbox.
"""
