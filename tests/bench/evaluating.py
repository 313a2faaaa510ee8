"""`python -m tests.bench.evaluating`: evaluates the verdicts of all stored catalogs in this process
alone; prints one line of JSON with seconds, memory, rows and the most frequent rules."""

import json
import resource
import time
from collections import Counter

import django


def main() -> None:
    django.setup()
    from catalogs.models import Catalog, Prediction
    from catalogs.verdicts.facts import NO_CLUSTER
    from catalogs.verdicts.store import VerdictContext, evaluate_catalog
    from installs.facts.cluster_facts import market_of

    Prediction.objects.all().delete()
    catalogs = list(Catalog.objects.order_by("slug"))
    idle, peaks, written = peak_mb(), [], 0
    seconds, cpu, bundles = {}, {}, {}
    for catalog in catalogs:
        start, busy = time.perf_counter(), time.process_time()
        context = VerdictContext(None, NO_CLUSTER, market_of(catalog, None))
        summary = evaluate_catalog(catalog, [context])
        seconds[catalog.slug] = time.perf_counter() - start
        cpu[catalog.slug] = time.process_time() - busy
        bundles[catalog.slug] = summary.bundles
        written += summary.written
        peaks.append(peak_mb() - idle)
    rules: Counter[tuple[str, str, str]] = Counter()
    rows = Prediction.objects.filter(bundle__isnull=False)
    for path, target, results in rows.values_list("path", "target", "results"):
        method = path if target == "all" else f"{path} ({target})"
        rules.update((result["rule"], method, result["verdict"]) for result in results)
    report = {
        "seconds": seconds,
        "cpu": cpu,
        "peaks": peaks,
        "bundles": bundles,
        "rows": written,
        "rules": [[*key, count] for key, count in rules.most_common(10)],
    }
    print(json.dumps(report))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
