"""The store in memory with multipart uploads, whose requests a test can spoil."""
from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
import threading
import urllib.parse
import uuid
import xml.etree.ElementTree

from conftest import eventually
from memory_store import Answer, MemoryStore, Received, checksum, etag, serving

PART_MIN = 5 << 20
ALGORITHMS = {"SHA256": "sha256", "CRC32C": "crc32c", "CRC64NVME": "crc64nvme"}


@dataclasses.dataclass
class Upload:
    """An upload that is not complete. `fields`: those of the request that has begun it."""
    path: str
    fields: Received
    parts: dict[int, bytes] = dataclasses.field(default_factory=dict)


def etag_of_parts(parts: list[bytes]) -> str:
    digests = b"".join(hashlib.md5(one, usedforsecurity=False).digest() for one in parts)
    return f'"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"'


class MultipartStore(MemoryStore):
    """`spoil`: a function of the kind, the number of the part and the request; what it returns is the answer, None lets
    the store answer. It is called before the store acts; `spoil_after` after that."""

    def __init__(self):
        super().__init__()
        self.uploads: dict[str, Upload] = {}
        self.tags: dict[str, str] = {}
        self.checksums: dict[str, dict[str, str]] = {}
        self.page = 1_000
        self.encryption: str | None = None
        self.log: list[tuple[str, int]] = []
        self.most = self.running = 0
        self.spoil = self.spoil_after = lambda kind, number, request: None

    def server_close(self):
        super().server_close()
        self.uploads = {}

    def kinds(self, kind: str | None = None) -> list:
        """The numbers of the requests of a kind, or the kinds of all requests; parts once in a row."""
        with self.lock:
            if kind:
                return [number for one, number in self.log if one == kind]
            return [one for index, (one, _) in enumerate(self.log) if index == 0 or one != self.log[index - 1][0] or one != "part"]

    def usual(self, request: Received) -> Answer:
        path, _, query = request.path.partition("?")
        names = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        number = int(names.get("partNumber", names.get("part-number-marker", 0)))
        if "uploads" in names:
            kind = "create" if request.method == "POST" else "unfinished"
        elif "partNumber" in names:
            kind = "part"
        elif "uploadId" in names:
            kind = {"POST": "complete", "GET": "list", "DELETE": "abort"}[request.method]
        elif "list-type" in names:
            kind = "objects"
        elif request.method == "HEAD":
            kind = "look"
        elif request.method == "DELETE":
            kind = "remove"
        else:
            kind = "put" if request.method == "PUT" else "get"
        with self.lock:
            self.log.append((kind, number))
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            if spoilt := self.spoil(kind, number, request):
                return spoilt
            if kind in ("put", "get"):
                answer = super().usual(request)
                return self.spoil_after(kind, number, request) or answer
            identifier = names.get("uploadId", "")
            if kind == "unfinished":
                return self._unfinished(path, names.get("prefix", ""))
            if kind == "objects":
                return self._objects(path, names.get("prefix", ""))
            if kind not in ("create", "look", "remove") and identifier not in self.uploads:
                return Answer(404, "NoSuchUpload")
            answer = getattr(self, "_" + kind)(path, identifier, number, request)
            return self.spoil_after(kind, number, request) or answer
        finally:
            with self.lock:
                self.running -= 1

    def _create(self, path: str, _identifier: str, _number: int, request: Received) -> Answer:
        if request.body:
            return self.fault(Answer(400, "InvalidRequest"), "a creation with a body")
        identifier = f"{uuid.uuid4()}/+="
        with self.lock:
            self.uploads[identifier] = Upload(path, request)
        fields = {"x-amz-server-side-encryption": self.encryption} if self.encryption else {}
        return Answer(200, fields=fields, body=f"<?xml version='1.0'?><InitiateMultipartUploadResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><UploadId>{identifier}</UploadId></InitiateMultipartUploadResult>".encode())

    def tag(self, data: bytes) -> str:
        return etag(data + b"key" if self.encryption else data)

    def _part(self, _path: str, identifier: str, number: int, request: Received) -> Answer:
        upload = self.uploads[identifier]
        fields = {"ETag": self.tag(request.body)}
        algorithm = ALGORITHMS.get(upload.fields["x-amz-checksum-algorithm"] or "")
        if algorithm:
            fields[f"x-amz-checksum-{algorithm}"] = checksum(algorithm, request.body)
            if request[f"x-amz-checksum-{algorithm}"] != fields[f"x-amz-checksum-{algorithm}"]:
                return self.fault(Answer(400, "BadDigest"), f"the checksum of part {number}")
        with self.lock:
            upload.parts[number] = request.body
        return Answer(200, fields=fields)

    def _list(self, _path: str, identifier: str, marker: int, _request: Received) -> Answer:
        parts = sorted(one for one in self.uploads[identifier].parts.items() if one[0] > marker)
        page = parts[:self.page]
        entries = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{self.tag(data).replace(chr(34), '&quot;')}</ETag><Size>{len(data)}</Size></Part>"
                          for number, data in page)
        more = f"<NextPartNumberMarker>{page[-1][0]}</NextPartNumberMarker>" if page else ""
        truncated = str(len(parts) > len(page)).lower()
        return Answer(200, body=f"<?xml version='1.0'?>\n<ListPartsResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>{more}<IsTruncated>{truncated}</IsTruncated>{entries}</ListPartsResult>".encode())

    def _abort(self, _path: str, identifier: str, _number: int, _request: Received) -> Answer:
        with self.lock:
            del self.uploads[identifier]
        return Answer(204)

    def _look(self, path: str, _identifier: str, _number: int, _request: Received) -> Answer:
        data = self.objects.get(path)
        if data is None:
            return Answer(404)
        # The handler sends the length of the body, and no body.
        return Answer(200, fields={"ETag": self.tags.get(path) or etag(data)} | self.checksums.get(path, {}), body=data)

    def _objects(self, path: str, prefix: str) -> Answer:
        with self.lock:
            keys = sorted(key.removeprefix(path) for key in self.objects if key.startswith(path + prefix))
        entries = "".join(f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>" for key in keys)
        return Answer(200, body=f"<?xml version='1.0'?><ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode())

    def _unfinished(self, path: str, prefix: str) -> Answer:
        with self.lock:
            found = [(one.path.removeprefix(path), identifier) for identifier, one in self.uploads.items()
                     if one.path.startswith(path + prefix)]
        entries = "".join(f"<Upload><Key>{key}</Key><UploadId>{identifier}</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>"
                          for key, identifier in found)
        return Answer(200, body=f"<?xml version='1.0'?><ListMultipartUploadsResult><IsTruncated>false</IsTruncated>{entries}</ListMultipartUploadsResult>".encode())

    def _remove(self, path: str, _identifier: str, _number: int, _request: Received) -> Answer:
        with self.lock:
            self.objects.pop(path, None)
        return Answer(204)

    def _complete(self, path: str, identifier: str, _number: int, request: Received) -> Answer:
        upload = self.uploads[identifier]
        form = "{http://s3.amazonaws.com/doc/2006-03-01/}"
        named = [{one.tag.removeprefix(form): one.text for one in part}
                 for part in xml.etree.ElementTree.fromstring(request.body)]
        numbers = [int(one["PartNumber"]) for one in named]
        if numbers != sorted(set(numbers)) or numbers != list(range(1, len(numbers) + 1)):
            return self.fault(Answer(400, "InvalidPartOrder"), f"parts {numbers}")
        if any(number not in upload.parts or one["ETag"] != self.tag(upload.parts[number]) for number, one in zip(numbers, named)):
            return Answer(400, "InvalidPart")
        parts = [upload.parts[number] for number in numbers]
        if any(len(one) < PART_MIN for one in parts[:-1]):
            return self.fault(Answer(400, "EntityTooSmall"), "a small part")
        data, checksums = b"".join(parts), {}
        if algorithm := ALGORITHMS.get(upload.fields["x-amz-checksum-algorithm"] or ""):
            values = [checksum(algorithm, one) for one in parts]
            if [one.get(f"Checksum{algorithm.upper()}") for one in named] != values:
                return self.fault(Answer(400, "InvalidPart"), "checksums of parts")
            if upload.fields["x-amz-checksum-type"] == "FULL_OBJECT":
                whole = checksum(algorithm, data)
                if request[f"x-amz-checksum-{algorithm}"] != whole:
                    return self.fault(Answer(400, "BadDigest"), "the checksum of the object")
            else:
                joined = b"".join(map(base64.b64decode, values))
                whole = f"{base64.b64encode(hashlib.sha256(joined).digest()).decode()}-{len(parts)}"
            checksums = {f"x-amz-checksum-{algorithm}": whole}
        with self.lock:
            if request["if-none-match"] == "*" and path in self.objects:
                return Answer(412, "PreconditionFailed")
            del self.uploads[identifier]
            self.objects[path], self.tags[path], self.checksums[path] = data, etag_of_parts(parts), checksums
        return Answer(200, fields={"x-amz-version-id": "v1"}, body=f"<?xml version='1.0'?>\n   \n<CompleteMultipartUploadResult><ETag>{self.tags[path]}</ETag></CompleteMultipartUploadResult>".encode())


def once(kind: str, answer, number: int | None = None, count: int = 1):
    """Gives the answer to the first requests of a kind."""
    left = [count]

    def spoil(one, part, request):
        if one == kind and number in (None, part) and left[0] > 0:
            left[0] -= 1
            return answer(request) if callable(answer) else answer
        return None

    return spoil


def stalled(memory: MultipartStore, after: int) -> threading.Event:
    """Parts beyond the first ones wait until the event is set."""
    released, count = threading.Event(), [0]

    def wait(kind, _number, _request):
        if kind != "part":
            return None
        with memory.lock:
            count[0] += 1
            waits = count[0] > after
        # They do not get through.
        return released.wait(60) and Answer(0) if waits else None

    memory.spoil = wait
    return released


def begun(memory: MultipartStore, after: int):
    eventually(60, lambda: memory.uploads and sum(len(one.parts) for one in list(memory.uploads.values())) == after
               and memory.running > 0, "parts wait")


def refuse_until(memory: MultipartStore, kind: str, released: threading.Event):
    """Requests of a process that was killed get no answer any more, until the next one sends a request of that kind."""
    def refuse(one, _number, _request):
        if one == kind:
            memory.spoil = lambda kind, number, request: None
            return None
        return released.wait(60) and Answer(0)

    memory.spoil = refuse


def error_in_200(code: str) -> Answer:
    """Amazon S3 sends status 200 before it has made an object, which may then fail."""
    return Answer(200, body=f"<?xml version='1.0'?>\n \n<Error><Code>{code}</Code><Message>Scripted.</Message></Error>".encode())


def multipart_store():
    return serving(MultipartStore())
