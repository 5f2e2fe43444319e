package disktest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sector is what a disk writes whole, in bytes.
const sector = 512

// Disk is what a disk and the cache before it hold at one moment of a recording. The zero value is an empty disk. It is not
// safe for concurrent use; Cut changes nothing and may run beside itself.
type Disk struct {
	// Lies is for the test of the test: a disk that says that it has synced, and has not.
	Lies bool

	done    int // operations
	current map[string]*content
	durable map[string]*content
	names   []naming // in their order, not durable
}

// content is a file, whatever its name.
type content struct {
	durable []byte
	pending []change
}

// change is a write, or with nil bytes a truncation.
type change struct {
	at    int // which operation
	from  int64
	bytes []byte
}

// naming is what happened to the names of a folder.
type naming struct {
	folder string
	do     func(names map[string]*content)
	at     int // which operation
}

// Apply takes in the next operation.
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
			return fmt.Errorf("%s goes to another folder, %s: that takes two syncs, which is not modelled", op.Path, op.To)
		}
		c := d.current[op.Path]
		d.name(op.Path, func(names map[string]*content) {
			delete(names, op.Path)
			names[op.To] = c
		})
	case Write, Truncate:
		c := d.current[op.Path]
		if c == nil {
			return fmt.Errorf("%s of %s, which is not there", op.Kind, op.Path)
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

// name changes names now, and for the disk sooner or later.
func (d *Disk) name(path string, do func(map[string]*content)) {
	do(d.current)
	folder := filepath.Dir(path)
	if folder == "." {
		folder = ""
	}
	d.names = append(d.names, naming{folder: folder, do: do, at: d.done})
}

// sync makes durable what was there when it began: the bytes of a file, or the names of a folder.
func (d *Disk) sync(op Op) {
	if d.Lies {
		return
	}
	if c := d.current[op.Path]; c != nil {
		kept := c.pending[:0:0]
		for _, change := range c.pending {
			if change.at >= op.Since {
				kept = append(kept, change)
				continue
			}
			c.durable = change.whole(c.durable)
		}
		c.pending = kept
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

// Fate is what becomes of unsynced writes at a power cut.
type Fate int

// The fates of unsynced writes. Names keep their order in all of them: of those that are not synced, some of the first are there.
const (
	AllLost  Fate = iota // none is there
	AllKept              // all are there, as after the death of the process alone
	SomeKept             // each is there or not, in any order
	Torn                 // each is there or not or in some of its sectors
	LastTorn             // those up to some moment are there, and the last of them in some of its sectors
	fates
)

// Fates are all of them.
func Fates() []Fate { return []Fate{AllLost, AllKept, SomeKept, Torn, LastTorn} }

// Cut writes into folder, which is there and empty, what is on the disk when the power is cut now.
func (d *Disk) Cut(folder string, fate Fate, dice *rand.Rand) error {
	names := maps.Clone(d.durable)
	if names == nil {
		names = map[string]*content{}
	}
	for _, n := range d.names[:survivors(len(d.names), fate, dice)] {
		n.do(names)
	}
	for _, path := range slices.Sorted(maps.Keys(names)) {
		name := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, names[path].cut(fate, dice), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Unsynced counts the writes that a power cut may take now.
func (d *Disk) Unsynced() (n int) {
	for _, c := range d.current {
		n += len(c.pending)
	}
	return n
}

// survivors is how many of the first n things survive.
func survivors(n int, fate Fate, dice *rand.Rand) int {
	switch fate {
	case AllLost:
		return 0
	case AllKept:
		return n
	}
	return dice.IntN(n + 1)
}

// cut is what is left of a file.
func (c *content) cut(fate Fate, dice *rand.Rand) []byte {
	left := slices.Clone(c.durable)
	pending := c.pending
	if fate == LastTorn {
		pending = pending[:survivors(len(pending), fate, dice)]
	}
	for i, change := range pending {
		switch {
		case fate == AllLost:
		case fate == AllKept, fate == LastTorn && i < len(pending)-1:
			left = change.whole(left)
		case fate == SomeKept, len(change.bytes) == 0: // a truncation has no parts
			if dice.IntN(2) == 0 {
				left = change.whole(left)
			}
		case fate == LastTorn || dice.IntN(3) == 0:
			left = change.torn(left, dice)
		case dice.IntN(2) == 0:
			left = change.whole(left)
		}
	}
	return left
}

// whole makes the change in what was there.
func (c change) whole(file []byte) []byte {
	if c.bytes == nil {
		return resized(file, c.from)
	}
	file = resized(file, max(int64(len(file)), c.from+int64(len(c.bytes))))
	copy(file[c.from:], c.bytes)
	return file
}

// torn makes the change in some of the sectors that it touches.
func (c change) torn(file []byte, dice *rand.Rand) []byte {
	for at := int64(0); at < int64(len(c.bytes)); {
		n := min(sector-(c.from+at)%sector, int64(len(c.bytes))-at) // up to the end of the sector
		if dice.IntN(2) == 0 {
			file = change{from: c.from + at, bytes: c.bytes[at : at+n]}.whole(file)
		}
		at += n
	}
	return file
}

// resized cuts a file, or adds zeros to it.
func resized(file []byte, size int64) []byte {
	if size <= int64(len(file)) {
		return file[:size]
	}
	return append(file, make([]byte, size-int64(len(file)))...)
}

// String names a fate.
func (f Fate) String() string {
	if f < 0 || f >= fates {
		return "no fate"
	}
	return strings.Fields("all-lost all-kept some-kept torn last-torn")[f]
}
