"""Runs the message tests on durable_rules: thirty rules of two tests, messages as JSON.

Arguments: the test (reject, accept or cycle), the file of messages (lines of JSON), and the number of runs. Prints the seconds of
each run, and the number of firings.
"""

import json
import sys
import time

from durable import engine
from durable.lang import m, post, ruleset, when_all

test, path, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
fired = [0]

with ruleset("messages"):
    for number in range(30):

        @when_all((m.subject == "s%d" % number) & (m.amount < 10))
        def act(c):
            fired[0] += 1
            if test == "cycle":
                c.assert_fact({"kind": "done", "subject": c.m.subject, "of": c.m.amount})


with open(path) as file:
    messages = [line.strip() for line in file]

for run in range(runs):
    fired[0] = 0
    events = [json.loads(line) for line in messages]
    started = time.process_time()
    for number, event in enumerate(events):
        event["id"] = "%d-%d" % (run, number)
        try:
            post("messages", event)
        except engine.MessageNotHandledException:
            pass
    print("seconds %.6f" % (time.process_time() - started))
print("firings %d" % fired[0])
