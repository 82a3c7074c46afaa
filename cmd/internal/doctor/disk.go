package doctor

import "strings"

// Room that the log wants: a full disk refuses calls, and the last megabytes are gone quickly.
const (
	leastRoom  = 64 << 20
	littleRoom = 1 << 30
)

// Encryption is what is known of a disk. The zero Encryption is unknown.
type Encryption uint8

const (
	EncryptionUnknown Encryption = iota
	Plain
	Encrypted
)

// Disk is where vault and log lie.
type Disk struct {
	Path       string
	Known      bool // the numbers below could be read
	Free       uint64
	FreeFiles  uint64
	Files      uint64 // 0: the file system doesn't count them
	ReadOnly   bool
	Type       string // as in mountinfo; "" unknown
	Encryption Encryption
}

// Findings judges a disk.
func (d Disk) Findings() []Finding { return []Finding{d.room(), d.kind(), d.encryption()} }

func (d Disk) room() Finding {
	const check = "disk.room"
	switch {
	case !d.Known:
		return Note(check, "look at `df`", "the room on the disk of %s is not known", d.Path)
	case d.ReadOnly:
		return Fault(check, "mount it for writing, or put the gateway elsewhere with SALLYPORT_HOME", "the disk of %s can't be written: no call can be recorded, so none is made", d.Path)
	case d.Free < leastRoom, d.Files > 0 && d.FreeFiles < 64:
		return Fault(check, "make room: nothing is done that can't be recorded first", "the disk of %s is full: %d MiB and %d files are left", d.Path, d.Free>>20, d.FreeFiles)
	case d.Free < littleRoom:
		return Note(check, "make room: nothing is done that can't be recorded first", "the disk of %s has %d MiB left", d.Path, d.Free>>20)
	}
	return Fine(check, "%d GiB are left at %s", d.Free>>30, d.Path)
}

func (d Disk) kind() Finding {
	const check = "disk.kind"
	base, _, _ := strings.Cut(d.Type, ".")
	switch base {
	case "":
		return Note(check, "look at `findmnt -T DIR`", "the file system of %s is not known", d.Path)
	case "tmpfs", "ramfs":
		return Fault(check, "put the gateway on a disk with SALLYPORT_HOME or XDG_DATA_HOME", "%s lies in memory (%s): vault and log are gone after a restart of the machine", d.Path, d.Type)
	case "nfs", "nfs4", "cifs", "smb3", "9p", "fuse", "afs", "ceph", "glusterfs":
		return Fault(check, "put the gateway on a local disk with SALLYPORT_HOME or XDG_DATA_HOME", "%s lies on %s, where locks and durable writes can't be relied on", d.Path, d.Type)
	}
	return Fine(check, "%s", d.Type)
}

func (d Disk) encryption() Finding {
	const check = "disk.encryption"
	switch d.Encryption {
	case Encrypted:
		return Fine(check, "the disk is encrypted")
	case Plain:
		return Note(check, "encrypt the disk (LUKS): a thief then gets neither names nor times", "the disk is not encrypted, as far as this machine shows. Vault and log are; when, how much and how often is not")
	}
	return Note(check, "look at `lsblk -f`", "whether the disk is encrypted can't be seen from here; vault and log are")
}
