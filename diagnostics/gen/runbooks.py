"""What is to be known, and done, about the alerts on the watching itself."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.gen.symptom import Runbook

RUNBOOKS: Mapping[str, Runbook] = {
    "check-undecided": Runbook(
        meaning="What this check needs is switched off, closed or not exported, for an hour by now.",
        impact="Its cause would go unnamed.",
        diagnosis=("Run `diag explain` on a server and read what is unknown and its list of blind spots.",),
        mitigation=("Switch on what it names, or silence this alert for a check that cannot apply to your servers.",),
    ),
    "target-down": Runbook(
        meaning="The diagnosis service cannot read this server's counters.",
        impact="No diagnosis of this server is possible, and its findings have ended. That they are gone does not mean "
        "that it is well.",
        diagnosis=(
            "Run `diag explain` on the server from where the service runs: it names the endpoint that fails and why.",
        ),
        mitigation=("Is the server itself down? Then its own alerts lead; this one ends with them.",),
    ),
    "targets-absent": Runbook(
        meaning="Prometheus has no sample of the diagnosis service: it is down, is not scraped, or watches no server.",
        impact="None of the alerts on causes can fire meanwhile.",
        diagnosis=("Is the service running, and is its job among Prometheus's targets?",),
        mitigation=("Does its own page list the servers that it should watch? If not, add them to its settings.",),
    ),
    "server-down": Runbook(
        meaning="Prometheus cannot scrape a target that exported Triton's metrics before.",
        impact="The server may be down; in any case nothing is seen of it.",
        diagnosis=(
            "Does it serve? `curl -i HOST:8000/v2/health/ready`; `curl HOST:8002/metrics` from where Prometheus is.",
        ),
        mitigation=("Restart it, or take it out of the balancer until it answers.",),
    ),
    "servers-absent": Runbook(
        meaning="Among Prometheus's targets none exports Triton's metrics.",
        impact="None of the alerts on symptoms can fire, whatever happens.",
        diagnosis=(
            "Open Prometheus's page of targets: is there a job for Triton's port 8002, and does its selector match?",
            "Is `--allow-metrics` of the servers on?",
        ),
        mitigation=("Mend the job; where there is no Triton on purpose, leave these rules out.",),
    ),
    "model-vanished": Runbook(
        meaning="A model that the server had an hour ago is gone: it was unloaded, or a load failed.",
        impact="Requests to it, and ensembles that need it, fail at once.",
        diagnosis=("Ask the server why: `curl -X POST HOST:8000/v2/repository/index` gives each model's reason.",),
        mitigation=(
            "Load it again, or roll the repository back. After a wanted unload the alert ends within the hour.",
        ),
    ),
    "not-diagnosed": Runbook(
        meaning="Prometheus scrapes this Triton, and the diagnosis service does not watch it under the same name.",
        impact="Its symptoms raise alerts, but nothing names their cause.",
        diagnosis=("Compare `instance` here with the names of the servers in the service's settings.",),
        mitigation=("Add the server to the service's settings, under the name that Prometheus gives it.",),
    ),
    "without-statistics": Runbook(
        meaning="The server was started with `--metrics-config counter_latencies=false`.",
        impact="Its durations are missing and its other counters stand still, so every rule is blind to it.",
        diagnosis=("Look at the server's command line.",),
        mitigation=("Start it without that option; the counters cost next to nothing.",),
    ),
}
