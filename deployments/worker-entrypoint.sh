#!/bin/sh
# Runs the command. A worker gets no SIGTERM before the runs of this container have ended: `deployments.drain` waits for them.
case "$*" in
"prefect worker start"*) ;;
*) exec "$@" ;;
esac
python -m deployments.drain --resume
# A shell starts background commands with SIGINT ignored, and a Prefect worker ends itself by SIGINT.
env --default-signal=INT "$@" &
worker=$!
drain() {
	python -m deployments.drain
	kill -TERM "$worker"
}
trap drain TERM INT
while kill -0 "$worker" 2>/dev/null; do wait "$worker"; done
python -m deployments.drain --resume # for the other workers of the pool
