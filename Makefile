# make run        install what is missing, build, start Ferry on a private PostgreSQL
# make test       install what tests need, build, run all of them
.DEFAULT_GOAL := build
.PHONY: run build release test test-swift test-memory test-races test-outside install-deps install-test-deps \
        format lint check-compose secrets bench-peers bench-micro bench-memory bench-webhooks bench-queue \
        bench-submit bench-lists bench-report soak clean

SWIFT ?= swift
FERRY ?= .build/release/ferry

run: install-deps release
	@exec $(FERRY) serve $(ARGS)

build:
	$(SWIFT) build

release:
	$(SWIFT) build -c release --product ferry --static-swift-stdlib

test: install-test-deps build test-swift test-memory test-outside

test-swift:
	scripts/swift-tests

# The wrappers and the engine under AddressSanitizer. Leaks are not asked for: the Swift runtime and libcurl keep
# some memory for the life of the process.
test-memory:
	ASAN_OPTIONS=detect_leaks=0 scripts/swift-tests --sanitize=address --scratch-path .build-memory \
	    --filter '^(HTTPServerTests|PostgresTests|CurlTests|FerryEngineTests)\.'

# The wrappers under ThreadSanitizer: not part of `test`, since it builds everything a third time.
test-races: install-test-deps
	rm -f .build-races/report.*
	TSAN_OPTIONS="exitcode=0 log_path=$(CURDIR)/.build-races/report" scripts/swift-tests --sanitize=thread \
	    --scratch-path .build-races --filter '^(SysTests|HTTPServerTests|PostgresTests|CurlTests)\.'
	scripts/race-report .build-races/report

test-outside:
	scripts/outside-checks

install-deps:
	@scripts/install-system-packages run

install-test-deps:
	@scripts/install-system-packages run test

format:
	$(SWIFT) format --in-place --recursive Package.swift Sources Tests

lint:
	$(SWIFT) format lint --strict --recursive Package.swift Sources Tests
	$(SWIFT) build --explicit-target-dependency-import-check error

# The compose file, the image's recipe and the proxy's configuration, without a Docker daemon.
check-compose: install-test-deps
	scripts/outside-checks test_compose.py

# Passwords and keys for docker compose, made once.
secrets:
	@scripts/make-secrets

# Ferry beside its peers: make bench-peers WORKLOADS=W1,W5 PEERS=ferry,rclone,aria2
bench-peers: install-deps release
	scripts/benchmark-peers "$(WORKLOADS)" "$(PEERS)" $(ARGS)

# Whether memory stays flat: 100,000 small downloads, and large ones onto a disk that is slower than the network.
bench-memory: install-test-deps release
	python3 Benchmarks/memory/memory.py --ferry $(FERRY) $(ARGS)

# What webhooks and streams of events cost: make bench-webhooks ARGS="--lines 2,3"
bench-webhooks: install-test-deps release
	python3 Benchmarks/webhooks/webhooks.py --ferry $(FERRY) $(ARGS)

# The hot pieces alone.
bench-micro: install-test-deps
	$(SWIFT) run -c release microbench

# How long submissions take while transfers run: make bench-submit ARGS="--seconds 60"
bench-submit: install-test-deps release
	python3 Benchmarks/submit/submit.py --ferry $(FERRY) $(ARGS)

# How long lists take with a long history, beside clients that read continuously: make bench-lists ARGS="--jobs 100000"
bench-lists: install-test-deps release
	python3 Benchmarks/lists/lists.py --ferry $(FERRY) $(ARGS)

# A cluster under a random load while everything around it fails: make soak ARGS="--seconds 600 --seed 7 --nodes 3"
soak: install-test-deps release
	python3 Benchmarks/soak/soak.py --ferry $(FERRY) $(ARGS)

# The queue where queues become slow: make bench-queue QUEUE="backlog snapshot=60"; alone, some minutes each.
bench-queue: install-test-deps
	$(SWIFT) run -c release microbench $(or $(QUEUE),all)

bench-report:
	@scripts/benchmark-peers --report

clean:
	rm -rf .build .build-memory
