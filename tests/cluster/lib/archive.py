"""archive.py LAYER TAG CONFIG OUT: wrap one layer as an image archive (docker save's format)."""

import hashlib
import io
import json
import sys
import tarfile

layer, tag, config, out = sys.argv[1:5]
with open(layer, "rb") as file:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
image = {
    "architecture": "amd64",
    "os": "linux",
    "config": json.loads(config),
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
}
manifest = [{"Config": "image.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
with tarfile.open(out, "w") as tar:
    for path, value in (("image.json", image), ("manifest.json", manifest)):
        body = json.dumps(value).encode()
        info = tarfile.TarInfo(path)
        info.size = len(body)
        tar.addfile(info, io.BytesIO(body))
    tar.add(layer, arcname="layer.tar")
