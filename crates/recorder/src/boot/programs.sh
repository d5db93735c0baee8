#!/bin/sh
# Starts the large programs of the root one after the other. The published root is that of a desktop, whose services read
# far more of the image than a minimal one; these programs stand for them. Programs that are missing are left out.
has() { command -v "$1" >/dev/null; }
! has python3 || python3 -c '
import importlib
for name in """argparse asyncio base64 calendar cmd codecs collections concurrent.futures configparser csv ctypes curses
dataclasses datetime decimal difflib email.mime.multipart enum fractions ftplib getpass glob gzip hashlib html.parser
http.client http.server imaplib inspect ipaddress json.decoder locale logging.config lzma mailbox multiprocessing.pool
pathlib pdb pickle platform plistlib pprint random readline sched secrets shelve shutil smtplib socketserver sqlite3 ssl
statistics subprocess tarfile tempfile tokenize traceback unittest.mock urllib.request uuid wave xml.dom.minidom
xml.etree.ElementTree xmlrpc.client zipfile""".split():
    try:
        importlib.import_module(name)
    except ImportError:
        pass
'
! has perl || perl -MPOSIX -MStorable -MEncode -MEncode::JP -MFile::Find -MIO::Socket -MTime::Local -MMath::BigFloat -MUnicode::UCD \
    -MCPAN::Meta -MPod::Simple -MTest::More -MDigest::SHA -MCompress::Zlib -MUnicode::Collate -MModule::CoreList -e 'exit 0'
! has vim || vim -es -u /usr/share/vim/vim*/defaults.vim -c 'set filetype=c' -c 'syntax on' -c 'help' -c 'qa!' </dev/null || true
! has ssh || ssh -G localhost >/dev/null
! has apt-cache || apt-cache policy >/dev/null
# The headers and symbol tables of all libraries: a desktop's programs link nearly all that are installed.
for library in /usr/lib/*-linux-gnu/*.so.*; do
    case $library in */ld-linux*|*/libc.so*) continue;; esac
    /lib64/ld-linux-x86-64.so.2 --list "$library" >/dev/null 2>&1 || true
done
exit 0
