"""Says what is wrong with a META.json, by the rules of version 1.0 of PGXN's Meta Spec: one sentence on each line.

    python3 tools/pgxn_meta.py META.json

PGXN publishes the rules as a JSON schema, and checks them with a program of its own when a distribution arrives there.
This is the part of them that a distribution like ours can break, so that a release needs neither.
"""

import json
import re
import sys

NUMBER = r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
VERSION = NUMBER + r"(-[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
BOUND = rf"(([=!]=|[<>]=?)\s*)?({VERSION}|0)"
RANGE = rf"{BOUND}(,\s*{BOUND})*"
LICENSES = (
    "agpl_3 apache_1_1 apache_2_0 artistic_1 artistic_2 bsd freebsd gfdl_1_2 gfdl_1_3 gpl_1 gpl_2 gpl_3 lgpl_2_1 lgpl_3_0 mit "
    "mozilla_1_0 mozilla_1_1 openssl perl_5 postgresql qpl_1_0 ssleay sun zlib open_source restricted unrestricted unknown"
).split()

wrong = []


def check(holds, what):
    if not holds:
        wrong.append(what)


def is_text(value, least=1):
    return isinstance(value, str) and len(value) >= least


def is_term(value):
    return is_text(value, 2) and not re.search(r"[\s/\\\x00-\x1f\x7f]", value)


def matches(pattern, value):
    return isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) is not None


def is_path(value):
    return is_text(value) and not value.startswith("/") and ".." not in value.split("/")


def fields(where, value, required, known):
    """Whether it is an object with what it needs. It may have what is known, and names that begin with x_."""
    if not isinstance(value, dict):
        wrong.append(f"{where} is no object")
        return False
    for name in required:
        check(name in value, f"{where} has no {name}")
    for name in value:
        check(name in known or re.match("[xX]_.", name), f"{where} has {name}, which the spec does not know")
    return True


def texts(where, value):
    if isinstance(value, str):
        value = [value]
    is_list = isinstance(value, list) and value and all(map(is_text, value)) and len(set(value)) == len(value)
    check(is_list, f"{where} is neither a text nor a list of texts")


def license_of(value):
    if isinstance(value, dict):
        check(value and all(matches(r"[a-z][a-z0-9+.-]*:.+", url) for url in value.values()), "license names an address that is none")
        return
    for name in value if isinstance(value, list) and value else [value]:
        check(name in LICENSES, f"license is {name!r}, which the spec does not know")


def provides(value):
    check(isinstance(value, dict) and value, "provides names no extension")
    for name, extension in value.items() if isinstance(value, dict) else ():
        where = f"provides.{name}"
        check(is_term(name), f"{where} is no name for an extension")
        if fields(where, extension, ["file", "version"], ["file", "version", "abstract", "docfile", "docpath"]):
            check(matches(VERSION, extension.get("version", "0.0.0")), f"{where}.version is no semantic version")
            for key in ("file", "docfile"):
                check(is_path(extension.get(key, "-")), f"{where}.{key} is no path in the distribution")
            check(is_text(extension.get("abstract", "-")), f"{where}.abstract is no text")


def prereqs(value):
    phases = ["configure", "build", "test", "runtime", "develop"]
    kinds = ["requires", "recommends", "suggests", "conflicts"]
    if not fields("prereqs", value, [], phases):
        return
    check(any(phase in value for phase in phases), "prereqs has no phase")
    for phase in filter(value.get, phases):
        if not fields(f"prereqs.{phase}", value[phase], [], kinds):
            continue
        check(any(kind in value[phase] for kind in kinds), f"prereqs.{phase} asks for nothing")
        for kind in filter(value[phase].get, kinds):
            for name, versions in value[phase][kind].items():
                check(is_term(name), f"prereqs.{phase}.{kind} has {name!r}, which is no name")
                check(versions == 0 or matches(RANGE, versions), f"prereqs.{phase}.{kind}.{name} is {versions!r}, no range of versions")


def tags(value):
    is_list = isinstance(value, list) and value and all(is_text(tag, 2) for tag in value)
    check(is_list, "tags is no list of texts")
    if is_list:
        check(len(set(value)) == len(value), "tags names one twice")
        for tag in value:
            check(len(tag) <= 255 and not re.search(r"[/\\\x00-\x1f\x7f]", tag), f"tags has {tag!r}, which is no tag")


def resources(value):
    if fields("resources", value, [], ["homepage", "bugtracker", "repository"]):
        check(value, "resources has none")
        address = r"[a-z][a-z0-9+.-]*:.+"
        check(matches(address, value.get("homepage", "x:x")), "resources.homepage is no address")
        for name, known in (("bugtracker", ["web", "mailto"]), ("repository", ["url", "web", "type"])):
            if name in value and fields(f"resources.{name}", value[name], [], known):
                check(value[name].get("web") or all(map(value[name].get, set(known) - {"web"})), f"resources.{name} leads nowhere")


def distribution(meta):
    required = ["name", "version", "abstract", "maintainer", "license", "provides", "meta-spec"]
    known = [*required, "description", "generated_by", "tags", "no_index", "prereqs", "release_status", "resources"]
    if not fields("META.json", meta, required, known):
        return
    check(is_term(meta.get("name", "--")), "name is no name for a distribution")
    check(matches(VERSION, meta.get("version", "0.0.0")), "version is no semantic version")
    for name in ("abstract", "description", "generated_by"):
        check(is_text(meta.get(name, "-")), f"{name} is no text")
    status = meta.get("release_status", "stable")
    check(status in ("stable", "testing", "unstable"), f"release_status is {status!r}, not stable, testing or unstable")
    spec = meta.get("meta-spec", {"version": "1.0.0"})
    if fields("meta-spec", spec, ["version"], ["version", "url"]):
        check(matches(r"1\.0\.\d+", spec.get("version", "1.0.0")), "meta-spec.version is not 1.0 of the spec")
        check(matches("https?://pgxn.org/meta/spec.txt", spec.get("url", "https://pgxn.org/meta/spec.txt")), "meta-spec.url is not that of the spec")
    parts = {
        "license": license_of, "provides": provides, "prereqs": prereqs, "tags": tags, "resources": resources,
        "maintainer": lambda value: texts("maintainer", value),
    }  # fmt: skip
    for name, part in parts.items():
        if name in meta:
            part(meta[name])


try:
    with open(sys.argv[1], encoding="utf-8") as file:
        distribution(json.load(file))
except ValueError as error:
    wrong.append(f"it is no JSON: {error}")
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(bool(wrong))
