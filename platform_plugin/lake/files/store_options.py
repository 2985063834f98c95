"""`read_store_options`: this process's credentials for an object store, and the store's address, for a process that has neither.

They are what fsspec's file systems take as arguments. They are sent with the arguments of a job and stand in no plan, setting or log.
Credentials that a machine has by itself, such as the role of an instance, are not sent: other machines have their own.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_AZURE = {
    "AZURE_STORAGE_ACCOUNT_NAME": "account_name",
    "AZURE_STORAGE_ACCOUNT_KEY": "account_key",
    "AZURE_STORAGE_CONNECTION_STRING": "connection_string",
    "AZURE_STORAGE_SAS_TOKEN": "sas_token",
    "AZURE_STORAGE_CLIENT_ID": "client_id",
    "AZURE_STORAGE_CLIENT_SECRET": "client_secret",
    "AZURE_STORAGE_TENANT_ID": "tenant_id",
}
_GOOGLE = {"STORAGE_EMULATOR_HOST": "endpoint_url", "GOOGLE_CLOUD_PROJECT": "project"}
_OF_MACHINE = ("container-role", "iam-role")


def read_store_options(scheme: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The arguments for the file system of a scheme; nothing for one that needs none.

    >>> read_store_options("abfs", {"AZURE_STORAGE_ACCOUNT_NAME": "lake"}), read_store_options("", {})
    ({'account_name': 'lake'}, {})
    """
    if scheme in ("s3", "s3a"):
        return _configured(scheme) | _of_amazon(environment)
    if scheme in ("gs", "gcs"):
        return _configured(scheme) | _named(_GOOGLE, environment) | _of_google(environment)
    if scheme in ("abfs", "abfss", "az"):
        return _configured(scheme) | _named(_AZURE, environment)
    return {}


def _configured(scheme: str) -> dict[str, Any]:
    """What fsspec's own configuration says of a scheme."""
    import fsspec

    return dict(fsspec.config.conf.get(scheme) or {})


def _named(names: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    return {option: environment[name] for name, option in names.items() if environment.get(name)}


def _of_amazon(environment: Mapping[str, str]) -> dict[str, Any]:
    """Keys of the environment and of profiles, as the client of S3 finds them."""
    try:
        from botocore.session import Session
    except ImportError:
        return {}
    session = Session()
    resolver = session.get_component("credential_provider")
    for provider in _OF_MACHINE:
        with suppress(Exception):
            resolver.remove(provider)
    options: dict[str, Any] = {}
    credentials = resolver.load_credentials()
    if credentials is not None:
        frozen = credentials.get_frozen_credentials()
        options |= {"key": frozen.access_key, "secret": frozen.secret_key}
        options |= {"token": frozen.token} if frozen.token else {}
    profile = {}
    with suppress(Exception):  # a profile that is not there is told when the store is opened
        profile = session.get_scoped_config()
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or profile.get("endpoint_url")
    options |= {"endpoint_url": endpoint} if endpoint else {}
    region = session.get_config_variable("region")
    return options | ({"client_kwargs": {"region_name": region}} if region else {})


def _of_google(environment: Mapping[str, str]) -> dict[str, Any]:
    """The keys in the file that the environment names, which other machines do not have."""
    place = environment.get("GOOGLE_APPLICATION_CREDENTIALS")
    if not place:
        return {}
    try:
        return {"token": json.loads(Path(place).read_text())}
    except (OSError, ValueError):
        return {}
