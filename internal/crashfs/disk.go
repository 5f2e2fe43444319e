package crashfs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sector is the number of bytes that a disk writes atomically.
const sector = 512

// Disk is the state of a disk and the cache in front of it at one point of a recording. The zero
// value is an empty disk. Not safe for concurrent use, except that several Cuts may run at once.
type Disk struct {
	// Lies makes a disk that reports syncs without doing them, to test the tests.
	Lies bool

	done    int // number of applied operations
	current map[string]*content
	durable map[string]*content
	names   []naming // not durable yet, in order
}

// content is a file, independent of its name.
type content struct {
	durable []byte
	pending []change
}

// change is a write, or a truncation if bytes is nil.
type change struct {
	at    int // number of the operation
	from  int64
	bytes []byte
}

// naming is a change of the names in a folder.
type naming struct {
	folder string
	do     func(names map[string]*content)
	at     int // number of the operation
}

// Apply adds the next operation.
func (d *Disk) Apply(op Op) error {
	if d.current == nil {
		d.current, d.durable = map[string]*content{}, map[string]*content{}
	}
	defer func() { d.done++ }()
	switch op.Kind {
	case Create:
		c := &content{}
		d.name(op.Path, func(names map[string]*content) { names[op.Path] = c })
	case Unlink:
		d.name(op.Path, func(names map[string]*content) { delete(names, op.Path) })
	case Rename:
		if filepath.Dir(op.Path) != filepath.Dir(op.To) {
			return fmt.Errorf("rename %s to another folder, %s: not modelled, because it needs two syncs", op.Path,
				op.To)
		}
		c := d.current[op.Path]
		d.name(op.Path, func(names map[string]*content) {
			delete(names, op.Path)
			names[op.To] = c
		})
	case Write, Truncate:
		c := d.current[op.Path]
		if c == nil {
			return fmt.Errorf("%s of %s, which does not exist", op.Kind, op.Path)
		}
		change := change{at: d.done, from: op.Offset, bytes: op.Bytes}
		if op.Kind == Truncate {
			change.from, change.bytes = op.Size, nil
		}
		c.pending = append(c.pending, change)
	case Sync:
		d.sync(op)
	}
	return nil
}

// name changes names now, and on the disk sooner or later.
func (d *Disk) name(path string, do func(map[string]*content)) {
	do(d.current)
	folder := filepath.Dir(path)
	if folder == "." {
		folder = ""
	}
	d.names = append(d.names, naming{folder: folder, do: do, at: d.done})
}

// sync makes durable what existed when it started: the bytes of a file, or the names of a folder.
func (d *Disk) sync(op Op) {
	if d.Lies {
		return
	}
	if c := d.current[op.Path]; c != nil {
		remaining := c.pending[:0:0]
		for _, change := range c.pending {
			if change.at >= op.Since {
				remaining = append(remaining, change)
				continue
			}
			c.durable = change.apply(c.durable)
		}
		c.pending = remaining
		return
	}
	d.names = slices.DeleteFunc(d.names, func(n naming) bool {
		if n.folder != op.Path || n.at >= op.Since {
			return false
		}
		n.do(d.durable)
		return true
	})
}

// Fate decides what a power cut does to unsynced writes.
type Fate int

// The fates of unsynced writes. Names keep their order in all of them: of the unsynced changes of
// names, the first ones survive, up to some point.
const (
	AllLost  Fate = iota // none survives
	AllKept              // all survive, as after a crash of the process alone
	SomeKept             // each survives or not, in any order
	Torn                 // each survives, is lost, or survives in some of its sectors
	LastTorn             // those up to some point survive, the last of them in some of its sectors
	fates
)

// Fates returns all fates.
func Fates() []Fate { return []Fate{AllLost, AllKept, SomeKept, Torn, LastTorn} }

// Cut writes the files that are on the disk after a power cut at this point into an existing empty
// folder.
func (d *Disk) Cut(folder string, fate Fate, rng *rand.Rand) error {
	names := maps.Clone(d.durable)
	if names == nil {
		names = map[string]*content{}
	}
	for _, n := range d.names[:survivors(len(d.names), fate, rng)] {
		n.do(names)
	}
	for _, path := range slices.Sorted(maps.Keys(names)) {
		name := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, names[path].cut(fate, rng), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Unsynced counts the writes that a power cut could lose now.
func (d *Disk) Unsynced() (n int) {
	for _, c := range d.current {
		n += len(c.pending)
	}
	return n
}

// survivors returns how many of n ordered changes survive.
func survivors(n int, fate Fate, rng *rand.Rand) int {
	switch fate {
	case AllLost:
		return 0
	case AllKept:
		return n
	}
	return rng.IntN(n + 1)
}

// cut returns what is left of a file.
func (c *content) cut(fate Fate, rng *rand.Rand) []byte {
	left := slices.Clone(c.durable)
	pending := c.pending
	if fate == LastTorn {
		pending = pending[:survivors(len(pending), fate, rng)]
	}
	for i, change := range pending {
		switch {
		case fate == AllLost:
		case fate == AllKept, fate == LastTorn && i < len(pending)-1:
			left = change.apply(left)
		case fate == SomeKept, len(change.bytes) == 0: // a truncation has no parts
			if rng.IntN(2) == 0 {
				left = change.apply(left)
			}
		case fate == LastTorn || rng.IntN(3) == 0:
			left = change.torn(left, rng)
		case rng.IntN(2) == 0:
			left = change.apply(left)
		}
	}
	return left
}

// apply applies the change to a file.
func (c change) apply(file []byte) []byte {
	if c.bytes == nil {
		return resized(file, c.from)
	}
	file = resized(file, max(int64(len(file)), c.from+int64(len(c.bytes))))
	copy(file[c.from:], c.bytes)
	return file
}

// torn applies the change to some of the sectors that it touches.
func (c change) torn(file []byte, rng *rand.Rand) []byte {
	for at := int64(0); at < int64(len(c.bytes)); {
		n := min(sector-(c.from+at)%sector, int64(len(c.bytes))-at) // up to the end of the sector
		if rng.IntN(2) == 0 {
			file = change{from: c.from + at, bytes: c.bytes[at : at+n]}.apply(file)
		}
		at += n
	}
	return file
}

// resized truncates a file, or extends it with zeros.
func resized(file []byte, size int64) []byte {
	if size <= int64(len(file)) {
		return file[:size]
	}
	return append(file, make([]byte, size-int64(len(file)))...)
}

// String returns the name of a fate.
func (f Fate) String() string {
	if f < 0 || f >= fates {
		return "no fate"
	}
	return strings.Fields("all-lost all-kept some-kept torn last-torn")[f]
}
