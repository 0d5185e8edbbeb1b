"""``torch.export.pt2_archive``: the files in which exported programs are kept."""

from ._package import (
    PT2ArchiveContents as PT2ArchiveContents,
    PT2ArchiveReader as PT2ArchiveReader,
    PT2ArchiveWriter as PT2ArchiveWriter,
    is_pt2_package as is_pt2_package,
    load_pt2 as load_pt2,
    package_pt2 as package_pt2,
)
