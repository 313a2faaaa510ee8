"""The demo starts with one command, says when it is ready, and ends within five seconds."""

import json
import signal

import pytest
import urllib3

from tests.e2e.product import demo

pytestmark = pytest.mark.e2e


def test_the_demo_shows_the_audit_and_sigterm_ends_it() -> None:
    with demo(judged=False) as product:
        http = urllib3.PoolManager()

        def read(path: str) -> dict:
            answer = http.request("GET", product.url + path, timeout=10)
            assert answer.status == 200
            return json.loads(answer.data)

        operators = read("/api/v1/operators?kind=PlatformOperator&limit=500")
        assert operators["count"] == 69
        healthy = [item for item in operators["items"] if item["health"] == "Healthy"]
        assert len(healthy) == 25
        [cluster] = read("/api/v1/status")["items"]
        assert sorted(finding["count"] for finding in cluster["findings"])[-3:] == [4, 14, 26]
        aggregated = read("/api/v1/clusteroperators/sandbox/platform-operators-aggregated")
        assert len(aggregated["members"]) == 44
        assert all(member["operator"] for member in aggregated["members"])
        assert all(member["finding"] for member in aggregated["members"])

        product.process.send_signal(signal.SIGTERM)
        assert product.process.wait(timeout=20) == 0
