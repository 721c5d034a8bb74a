"""Models on the Hugging Face hub: ``hf://OWNER/NAME``, or ``hf://OWNER/NAME@REVISION``.

The only place at which the package uses a network, and only if such a name is given.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fcfg.support.errors import InputError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

PREFIX = "hf://"
CARD = "README.md"
#: What a folder of a model may hold. Anything else on the hub is not fetched.
_FILES = ("*.json", "*.safetensors", "*.md", "*.png", "*.webp", "*.svg", "samples/*")
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
_NAME = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)


@dataclass(frozen=True)
class HubName:
    """A model on the hub."""

    repository: str  #: owner and name
    revision: str | None = None  #: branch, tag or commit; by default the newest

    @classmethod
    def of(cls, text: str) -> Self:
        """Return what a text names."""
        found = _NAME.fullmatch(text)
        if found is None:
            expected = "hf://OWNER/NAME or hf://OWNER/NAME@REVISION"
            raise InputError("model", expected=expected, got=f"'{text}'", do="correct the name")
        return cls(*found.groups())

    def __str__(self) -> str:
        return f"{PREFIX}{self.repository}" + (f"@{self.revision}" if self.revision else "")

    def fetch(self) -> Path:
        """Return the folder of the model in the cache of the hub, fetched if it is not there."""
        with _told(self):
            folder = _api().snapshot_download(
                self.repository, revision=self.revision, allow_patterns=list(_FILES)
            )
        return Path(folder)

    def upload(self, folder: Path, *, private: bool = False) -> HubName:
        """Write the files of a folder to the hub, in one commit; return its name."""
        with _told(self):
            api = _api()
            api.create_repo(self.repository, private=private, exist_ok=True)
            if self.revision is not None:
                api.create_branch(self.repository, branch=self.revision, exist_ok=True)
            done = api.upload_folder(
                repo_id=self.repository,
                folder_path=folder,
                revision=self.revision,
                commit_message="Upload a model of fcfg",
                delete_patterns=["*.safetensors"],  # of an older model
            )
        return HubName(self.repository, done.oid)


def cached() -> dict[str, Path]:
    """Return the folders of the models in the cache of the hub, by name."""
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        repositories = scan_cache_dir().repos
    except CacheNotFound:
        return {}
    return {
        str(HubName(found.repo_id, revision.commit_hash)): revision.snapshot_path
        for found in sorted(repositories, key=lambda found: found.repo_id)
        for revision in found.revisions
    }


def _api() -> HfApi:
    from huggingface_hub import HfApi

    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="fcfg")


@contextmanager
def _told(name: HubName) -> Generator[None]:
    """Turn errors of the hub into one line."""
    from huggingface_hub import errors

    of_its_client = errors.HTTPError  # pyright: ignore[reportPrivateImportUsage]
    expected, wrong = "a model on the hub", "check the name; 'hf auth login' if it is private"
    try:
        yield
    except errors.RevisionNotFoundError as error:
        got, do = f"no revision '{name.revision}' of it", "name a branch, a tag or a commit"
        raise InputError(f"model {name}", expected=expected, got=got, do=do) from error
    except errors.RepositoryNotFoundError as error:  # also of a gated one
        got = "none that you may read"
        raise InputError(f"model {name}", expected=expected, got=got, do=wrong) from error
    except errors.HfHubHTTPError as error:
        got = f"a refusal: {' '.join(str(error).split())[:200]}"
        raise InputError(f"model {name}", expected=expected, got=got, do=wrong) from error
    except Exception as error:  # its client raises many kinds for answers that make no sense
        number = getattr(error, "errno", None)
        if number in _OF_THE_DISK:
            raise
        got, do = f"an answer that makes no sense ({type(error).__name__})", "check HF_ENDPOINT"
        if number is None and isinstance(error, OSError | of_its_client):
            got = "no connection to the hub, and no copy of it in the cache"
            do = "connect to the network, or name a folder"
        raise InputError(f"model {name}", expected=expected, got=got, do=do) from error
