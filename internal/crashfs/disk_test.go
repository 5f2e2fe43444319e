package crashfs

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// noted converts a readable recording to the format of strace: text in quotes and brackets becomes
// hexadecimal.
func noted(lines string) string {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		for line != "" {
			at := strings.IndexAny(line, `"<`)
			if at < 0 || strings.HasPrefix(line[at:], "<...") || strings.HasPrefix(line[at:], "<unfinished") ||
				strings.HasPrefix(line[at:], "<detached") {
				at = max(at, 0)
				end := at
				if next := strings.IndexAny(line[at+1:], `"<`); next >= 0 && at < len(line) && line[at] == '<' {
					end = at + 1 + next
				} else {
					end = len(line)
				}
				out.WriteString(line[:end])
				line = line[end:]
				continue
			}
			closing := map[byte]string{'"': `"`, '<': ">"}[line[at]]
			inner, rest, _ := strings.Cut(line[at+1:], closing)
			out.WriteString(line[:at+1])
			for _, b := range []byte(inner) {
				fmt.Fprintf(&out, `\x%s`, hex.EncodeToString([]byte{b}))
			}
			out.WriteString(closing)
			line = rest
		}
	}
	return out.String()
}

const story = `10 openat(AT_FDCWD</r>, "/r/a.new", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0600) = 3</r/a.new>
10 write(3</r/a.new>, "one", 3) = 3
11 write(9<socket:[77]>, "told", 4 <unfinished ...>
10 write(3</r/a.new>, "two", 3) = 3
10 fsync(3</r/a.new> <unfinished ...>
12 pwrite64(3</r/a.new>, "X", 1, 0) = 1
11 <... write resumed>) = 4
10 <... fsync resumed>) = 0
10 --- SIGURG {si_signo=SIGURG} ---
10 renameat(AT_FDCWD</r>, "/r/a.new", AT_FDCWD</r>, "/r/a") = 0
10 fsync(5</r>) = 0
10 openat(AT_FDCWD</r>, "/etc/passwd", O_RDONLY) = 4</etc/passwd>
10 openat(AT_FDCWD</r>, "/r/none", O_RDWR) = -1 ENOENT (No such file or directory)
10 ftruncate(3</r/a>, 4) = 0
10 unlink("/r/a") = 0
10 write(3</r/a>(deleted), "gone", 4) = 4
12 pwrite64(3</r/a>, "Y", 1, 0 <unfinished ...>
12 <... pwrite64 resumed> <detached ...>
13 ???( <detached ...>
11 write(9<socket:[77]>, "last", 4 <detached ...>
10 +++ exited with 0 +++
`

func read(t *testing.T, lines string) []Op {
	t.Helper()
	ops, err := Read(strings.NewReader(noted(lines)), "/r")
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

func TestRead(t *testing.T) {
	t.Parallel()
	var got []string
	for _, op := range read(t, story) {
		got = append(got, fmt.Sprintf("%s %s%s %d %d %q %d", op.Kind, op.Path, op.To, op.Offset, op.Size, op.Bytes,
			op.Since))
	}
	want := []string{
		`create a.new 0 0 "" 0`, `write a.new 0 0 "one" 0`, `say  0 0 "told" 0`, `write a.new 3 0 "two" 0`,
		`write a.new 0 0 "X" 0`,
		`sync a.new 0 0 "" 4`, `rename a.newa 0 0 "" 0`, `sync  0 0 "" 7`, `truncate a 0 4 "" 0`, `unlink a 0 0 "" 0`,
		`say  0 0 "last" 0`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestReadRefusesARecordingWithAHole(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"cut bytes":             `10 pwrite64(3</r/a>, "abc"..., 9, 0) = 9`,
		"nobody made it":        `10 openat(AT_FDCWD</r>, "/r/x", O_RDWR) = 3</r/x>`,
		"an end only":           `10 <... fsync`,
		"no call":               `10 nonsense`,
		"an unknown rename":     `10 rename("/r/a") = 0`,
		"an unknown descriptor": `10 write(8</r/a>, "abc", 3) = 3`,
	} {
		begin := `10 openat(AT_FDCWD</r>, "/r/a", O_RDWR|O_CREAT, 0600) = 3</r/a>` + "\n"
		if ops, err := Read(strings.NewReader(noted(begin+line+"\n")), "/r"); err == nil ||
			!strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: got %v, %v", name, ops, err)
		}
	}
}

// written is a disk after some operations.
func written(t *testing.T, ops []Op, lies bool) *Disk {
	t.Helper()
	d := &Disk{Lies: lies}
	for _, op := range ops {
		if err := d.Apply(op); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// after returns what a power cut leaves of a disk.
func after(t *testing.T, d *Disk, fate Fate, seed uint64) map[string]string {
	t.Helper()
	folder, found := t.TempDir(), map[string]string{}
	if err := d.Cut(folder, fate, rand.New(rand.NewPCG(seed, 0))); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name()] = string(text)
	}
	return found
}

func TestDisk(t *testing.T) {
	t.Parallel()
	ops := read(t, story)
	for name, c := range map[string]struct {
		ops  int
		fate Fate
		lies bool
		want map[string]string
	}{
		"nothing is synced":                        {5, AllLost, false, map[string]string{}},
		"all is kept":                              {5, AllKept, false, map[string]string{"a.new": "Xnetwo"}},
		"a file is synced, and its name is not":    {7, AllLost, false, map[string]string{}},
		"a name is synced":                         {8, AllLost, false, map[string]string{"a": "onetwo"}},
		"what began after the sync is not in it":   {8, AllKept, false, map[string]string{"a": "Xnetwo"}},
		"a disk that lies has nothing":             {8, AllLost, true, map[string]string{}},
		"a truncation waits":                       {9, AllLost, false, map[string]string{"a": "onetwo"}},
		"a truncation that came":                   {9, AllKept, false, map[string]string{"a": "Xnet"}},
		"a removal waits for the sync of a folder": {10, AllLost, false, map[string]string{"a": "onetwo"}},
		"a removal that came":                      {10, AllKept, false, map[string]string{}},
	} {
		if got := after(t, written(t, ops[:c.ops], c.lies), c.fate, 1); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestTornWrites checks the possible results of two unsynced writes: every sector has one of the
// contents that it had.
func TestTornWrites(t *testing.T) {
	t.Parallel()
	old, fresh := bytes.Repeat([]byte("o"), 3*sector), bytes.Repeat([]byte("n"), 2*sector)
	ops := []Op{
		{Kind: Create, Path: "f"}, {Kind: Write, Path: "f", Bytes: old}, {Kind: Sync, Path: "f", Since: 2},
		{Kind: Sync, Since: 3},
		{Kind: Write, Path: "f", Offset: sector / 2, Bytes: fresh},
		{Kind: Write, Path: "f", Offset: 3 * sector, Bytes: []byte("tail")},
	}
	for _, fate := range []Fate{SomeKept, Torn, LastTorn} {
		states := map[string]bool{}
		for seed := range uint64(200) {
			text := after(t, written(t, ops, false), fate, seed)["f"]
			states[text] = true
			for at := 0; at < 3*sector; at += sector / 2 {
				half := text[at : at+sector/2]
				if strings.Trim(half, half[:1]) != "" || !strings.Contains("on", half[:1]) {
					t.Fatalf("%s: half a sector at %d is %q", fate, at, half)
				}
			}
		}
		if least := map[Fate]int{SomeKept: 4, Torn: 8, LastTorn: 5}[fate]; len(states) < least {
			t.Errorf("%s: %d different states, want at least %d", fate, len(states), least)
		}
	}
}

func TestDiskRefusesWhatItDoesNotModel(t *testing.T) {
	t.Parallel()
	d := &Disk{}
	if err := d.Apply(Op{Kind: Write, Path: "none"}); err == nil {
		t.Error("a write to a missing file was accepted")
	}
	if err := d.Apply(Op{Kind: Rename, Path: "a/x", To: "b/x"}); err == nil {
		t.Error("a move to another folder was accepted")
	}
}
