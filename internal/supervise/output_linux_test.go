package supervise

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestPumpTakesWhatIsThere hurries a pump whose pipe a stranger holds open: what was written before is not lost.
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
	defer p.handOver()
	if _, err := syscall.Write(p.wfd, []byte("last words")); err != nil {
		t.Fatal(err)
	}

	if err := p.hurry(); err != nil {
		t.Fatal(err)
	}
	p.pump()

	var e Exit
	if out.close(&e); e.OutputBytes != int64(len("last words")) || e.OutputError != "" {
		t.Errorf("got exit %+v", e)
	}
}

// TestOutputHasNoHole fails one write: nothing is written behind it, though later ones would succeed.
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

// TestOutputEnds floods both streams: the beginning is in the file, and the end of each is told.
func TestOutputEnds(t *testing.T) {
	t.Parallel()
	out, err := openOutput(t.TempDir(), 100_000)
	if err != nil {
		t.Fatal(err)
	}
	write := func(s Stream, text string) {
		out.append(s, append(make([]byte, frameHeaderBytes), text...), len(text))
	}
	chunk := strings.Repeat("a", chunkMaxBytes)
	write(Stdout, chunk)
	for range 100 {
		write(Stdout, chunk)
	}
	write(Stderr, "one ")
	write(Stderr, "two")
	write(Stdout, "the end")

	var e Exit
	out.close(&e)

	total := int64(101*chunkMaxBytes + len("the end") + len("one two"))
	if e.OutputBytes != 100_000 || e.DroppedBytes != total-100_000 || len(e.Ends) != 2 {
		t.Fatalf("kept %d, dropped %d, %d ends", e.OutputBytes, e.DroppedBytes, len(e.Ends))
	}
	first, second := e.Ends[0], e.Ends[1]
	if first.Stream != Stdout || first.Dropped != e.DroppedBytes-7 || len(first.Bytes) != EndMaxBytes || !strings.HasSuffix(string(first.Bytes), "aathe end") {
		t.Errorf("got %s, %d bytes dropped, the last %d of them", first.Stream, first.Dropped, len(first.Bytes))
	}
	if second.Stream != Stderr || second.Dropped != 7 || string(second.Bytes) != "one two" {
		t.Errorf("got %+v", second)
	}
}
