package supervise

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestPumpTakesWhatIsThere hurries a pump whose pipe a foreign process holds open: earlier output
// is not lost.
func TestPumpTakesWhatIsThere(t *testing.T) {
	t.Parallel()
	out, err := openOutput(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPipe(Stdout, out)
	if err != nil {
		t.Fatal(err)
	}
	defer p.closeCommandEnd()
	if _, err := syscall.Write(p.wfd, []byte("last words")); err != nil {
		t.Fatal(err)
	}

	if err := p.stopReading(); err != nil {
		t.Fatal(err)
	}
	p.pump()

	var e Exit
	if out.close(&e); e.OutputBytes != int64(len("last words")) || e.OutputError != "" {
		t.Errorf("got exit %+v", e)
	}
}

// TestOutputHasNoHole fails one write: nothing is written behind it, though later ones would
// succeed.
func TestOutputHasNoHole(t *testing.T) {
	t.Parallel()
	out, err := openOutput(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	good := out.f
	bad, err := os.Open(good.Name())
	if err != nil {
		t.Fatal(err)
	}
	frame := append(make([]byte, frameHeaderBytes), "word"...)

	out.append(Stdout, frame, len("word"))
	out.f = bad
	out.append(Stdout, frame, len("word"))
	out.f = good
	out.append(Stdout, frame, len("word"))

	var e Exit
	out.close(&e)
	if e.OutputBytes != 4 || e.DroppedBytes != 8 || !strings.Contains(e.OutputError, "bad file descriptor") {
		t.Errorf("got exit %+v", e)
	}
	if st, err := os.Stat(good.Name()); err != nil || st.Size() != frameHeaderBytes+4 {
		t.Errorf("the file has %d bytes, %v", st.Size(), err)
	}
	if err := bad.Close(); err != nil {
		t.Error(err)
	}
}

// TestOutputEnds floods both streams: the end of each is known, however long ago it was written.
func TestOutputEnds(t *testing.T) {
	t.Parallel()
	out, err := openOutput(t.TempDir(), 100_000)
	if err != nil {
		t.Fatal(err)
	}
	write := func(s Stream, text string) {
		out.append(s, append(make([]byte, frameHeaderBytes), text...), len(text))
	}
	write(Stderr, "one ")
	write(Stderr, "two")
	chunk := strings.Repeat("a", chunkMaxBytes)
	for range 101 {
		write(Stdout, chunk)
	}
	write(Stdout, "the end")

	var e Exit
	out.close(&e)

	total := int64(101*chunkMaxBytes + len("the end"))
	if e.OutputBytes != total+7 || e.RotatedBytes < total-100_000 || e.DroppedBytes != 0 || e.OutputError != "" || len(e.Ends) != 2 {
		t.Fatalf("%d bytes, %d gave way, %d dropped, %q, %d ends", e.OutputBytes, e.RotatedBytes, e.DroppedBytes, e.OutputError, len(e.Ends))
	}
	first, second := e.Ends[0], e.Ends[1]
	if first.Stream != Stdout || first.Total != total || len(first.Bytes) != EndMaxBytes || !strings.HasSuffix(string(first.Bytes), "aathe end") {
		t.Errorf("got %s, %d bytes, the last %d of them", first.Stream, first.Total, len(first.Bytes))
	}
	if second.Stream != Stderr || second.Total != 7 || string(second.Bytes) != "one two" {
		t.Errorf("got %+v", second)
	}
}

// TestR21Ring writes numbered bytes of many lengths beyond the limit: at every moment the disk has
// no more than that, a reader that keeps up sees all of it, one that comes late the beginning and
// the newest, and each byte is at its offset.
func TestR21Ring(t *testing.T) {
	t.Parallel()
	const most = 100_000
	dir := t.TempDir()
	out, err := openOutput(dir, most)
	if err != nil {
		t.Fatal(err)
	}
	at := func(offset int64) byte { return byte(offset*31 + offset>>8) }
	reader := func() *frameReader {
		r, err := openFrames(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	var seen int64
	emit := func(c Chunk) error {
		for i, b := range c.Bytes {
			if b != at(c.Offset+int64(i)) {
				t.Fatalf("the byte at %d is another one", c.Offset+int64(i))
			}
		}
		seen += int64(len(c.Bytes))
		return nil
	}
	read := func(r *frameReader, ended bool) {
		if _, err := r.read(0, ended, emit); err != nil {
			t.Fatal(err)
		}
	}
	steady, lazy := reader(), reader()
	var total int64
	for i := range 400 {
		n := 1 + i*i*7%3_000
		if i%50 == 49 {
			n = chunkMaxBytes // longer than a file of the ring
		}
		frame := make([]byte, frameHeaderBytes+n)
		for j := range n {
			frame[frameHeaderBytes+j] = at(total + int64(j))
		}
		out.append(Stdout+Stream(i%2), frame, n)
		total += int64(n)
		if n < 5_000 {
			read(steady, false)
		}
		if i%90 == 20 {
			read(lazy, false)
		}
		disk, files := onDisk(t, dir)
		if disk > most || files > 1+ringFiles {
			t.Fatalf("%d bytes in %d files", disk, files)
		}
	}
	var e Exit
	if out.close(&e); e.OutputBytes != total || e.OutputError != "" {
		t.Fatalf("got exit %+v, want %d bytes", e, total)
	}
	for name, r := range map[string]*frameReader{"steady": steady, "lazy": lazy, "late": reader()} {
		seen = 0
		before := r.offset
		if read(r, true); r.offset != total {
			t.Errorf("%s: it ends at %d, want %d", name, r.offset, total)
		}
		if want := total - e.RotatedBytes; before == 0 && seen != want {
			t.Errorf("%s: read %d bytes, want %d", name, seen, want)
		}
	}
	if lazy.skipped == 0 || steady.skipped >= lazy.skipped {
		t.Errorf("the lazy one missed %d, the steady one %d", lazy.skipped, steady.skipped)
	}
}

// onDisk is how many bytes the files of a folder have, and how many there are.
func onDisk(t *testing.T, dir string) (size int64, files int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	return size, len(entries)
}

// TestRingWithAHole takes away what a full file of the ring ends with: that is said, and nothing
// behind it is shown as if it were whole.
func TestRingWithAHole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := openOutput(dir, MinOutputMaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, frameHeaderBytes+40_000)
	out.append(Stdout, frame, 40_000)
	r, err := openFrames(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Truncate(r.f.Name(), 20_000); err != nil {
		t.Fatal(err)
	}

	_, err = r.read(0, true, func(Chunk) error { return nil })

	if !errors.Is(err, Corrupt) {
		t.Errorf("got %v", err)
	}
}
