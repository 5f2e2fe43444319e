package supervise

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// frames is an output file with these payloads, on both streams in turn.
func frames(payloads ...string) []byte {
	var file []byte
	for i, p := range payloads {
		head := make([]byte, frameHeaderBytes)
		putFrameHeader(head, Stdout+Stream(i%2), len(p), time.UnixMicro(1_700_000_000_000_000+int64(i)))
		file = append(append(file, head...), p...)
	}
	return file
}

// openFile makes a run directory with that output file, and opens it.
func openFile(t testing.TB, file []byte) *frameReader {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, outputName), file, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := openFrames(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestFrameReader(t *testing.T) {
	t.Parallel()
	file := frames("one", "two", "three")
	for cut := range len(file) + 1 {
		r := openFile(t, file[:cut])
		var got []byte
		var chunks int
		emit := func(c Chunk) error {
			if c.Offset != int64(len(got)) || c.Stream != Stdout+Stream(chunks%2) ||
				c.At.UnixMicro() != 1_700_000_000_000_000+int64(chunks) {
				t.Errorf("cut at %d: chunk %d is %+v", cut, chunks, c)
			}
			got = append(got, c.Bytes...)
			chunks++
			return nil
		}

		if _, err := r.read(0, false, emit); err != nil {
			t.Fatalf("a torn tail at %d is an error: %v", cut, err)
		}
		if err := os.WriteFile(r.f.Name(), file, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.read(0, false, emit); err != nil {
			t.Fatal(err)
		}

		if string(got) != "onetwothree" || chunks != 3 {
			t.Errorf("cut at %d: got %q in %d chunks", cut, got, chunks)
		}
	}
}

// FuzzFrameReader reads arbitrary files: an error names the file, and emitted chunks are part of
// it.
func FuzzFrameReader(f *testing.F) {
	f.Add(frames("one", "two"), int64(0))
	f.Add(frames("one", "two")[:20], int64(4))
	f.Add([]byte("\x01\xff\xff\xff\xff........"), int64(0))
	f.Add([]byte{}, int64(1))
	f.Fuzz(func(t *testing.T, file []byte, from int64) {
		r := openFile(t, file)
		from = max(from, 0)
		next := from
		_, err := r.read(from, false, func(c Chunk) error {
			if c.Offset != next || len(c.Bytes) == 0 || len(c.Bytes) > chunkMaxBytes || !bytes.Contains(file, c.Bytes) {
				t.Errorf("chunk %+v after offset %d", c, next)
			}
			next += int64(len(c.Bytes))
			return nil
		})
		if err != nil && !errors.Is(err, Corrupt) {
			t.Errorf("got error %v", err)
		}
		if r.pos > int64(len(file)) {
			t.Errorf("it read to %d in a file of %d bytes", r.pos, len(file))
		}
	})
}
