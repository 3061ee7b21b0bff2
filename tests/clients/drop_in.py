# Debian's python3-redis, unchanged, with its defaults. Prints the replies as JSON for
# drop_in.test.mjs.

import json
import sys

import redis
from redis.cluster import RedisCluster

MONTH = 2592000
port = int(sys.argv[1])
socket = sys.argv[2]


def throttle(client, key, *more):
    return client.execute_command("CL.THROTTLE", key, 9, 10, MONTH, *more)


def error_of(call):
    try:
        return f"no error, but {call()}"
    except redis.RedisError as error:
        return str(error)


replies = {"version": redis.__version__}
client = redis.Redis(port=port)

line = client.pipeline()  # MULTI and EXEC by default
throttle(line, "py:line")
throttle(line, "py:line")
replies["pipeline"] = line.execute()

line = client.pipeline(transaction=False)
throttle(line, "py:line")
replies["pipeline_without_transaction"] = line.execute()

line = client.pipeline()
throttle(line, "py:refused")
line.execute_command("NOPE")
replies["refused"] = error_of(line.execute)
replies["after_refused"] = throttle(client, "py:refused", 0)[2]

script = client.register_script(
    "return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], ARGV[2], ARGV[3])"
)
replies["script"] = script(keys=["py:script"], args=[9, 10, MONTH])

replies["database"] = error_of(redis.Redis(port=port, db=1).ping)
replies["deleted"] = client.delete("py:line", "py:none")
replies["unix"] = throttle(redis.Redis(unix_socket_path=socket), "py:unix")

cluster = RedisCluster(host="127.0.0.1", port=port)
replies["cluster"] = throttle(cluster, "py:cluster")
line = cluster.pipeline()
throttle(line, "py:cluster")
throttle(line, "py:cluster")
replies["cluster_pipeline"] = line.execute()
replies["cluster_deleted"] = cluster.delete("py:cluster")

print(json.dumps(replies))
