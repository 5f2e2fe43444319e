package supervise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ringFiles is how many files at most keep what came after the beginning of an output was full.
const ringFiles = 8

// segmentName is the file of the ring that begins at a payload offset.
func segmentName(start int64) string { return fmt.Sprintf("%s.%020d", outputName, start) }

// A frame of the output file: one byte stream, four bytes length, eight bytes unix microseconds, both big-endian, then
// the payload. A frame is written at once and never changed, so a reader finds whole frames and at most one torn tail.
const (
	frameHeaderBytes = 1 + 4 + 8
	chunkMaxBytes    = 64 << 10
)

func putFrameHeader(b []byte, s Stream, n int, at time.Time) {
	b[0] = byte(s)
	binary.BigEndian.PutUint32(b[1:], uint32(n))
	binary.BigEndian.PutUint64(b[5:], uint64(at.UnixMicro()))
}

// frameReader reads the output of one run from its beginning, file by file. Not safe for concurrent use.
type frameReader struct {
	dir     string
	f       *os.File
	pos     int64  // in f, of the next frame
	offset  int64  // in the payload, of the next frame
	start   int64  // in the payload, of f
	skipped int64  // payload that gave way before it was read
	buf     []byte // grows to the largest payload seen

	looked time.Time // when the directory had changed last as it was listed
}

func openFrames(dir string) (*frameReader, error) {
	path := filepath.Join(dir, outputName)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is missing", Corrupt, path)
	}
	if err != nil {
		return nil, err
	}
	return &frameReader{dir: dir, f: f}, nil
}

func (r *frameReader) Close() error { return r.f.Close() }

// read emits the whole frames that are there, from the payload offset from on, and returns how many it passed. A torn
// last frame is left for the next read. Where what comes next gave way, it goes on with the newest file, for the others are
// about to go, too; with the oldest that is left, when the output has ended.
func (r *frameReader) read(from int64, ended bool, emit func(Chunk) error) (int, error) {
	passed, err := r.readFile(from, emit)
	for err == nil {
		var next int64
		var more bool
		if next, more, err = r.next(ended); err != nil || !more {
			break
		}
		// Its file is complete now. What came last may have come after we looked.
		var late int
		if late, err = r.readFile(from, emit); err == nil {
			err = r.advance(next)
		}
		passed += late
		if err == nil {
			late, err = r.readFile(from, emit)
			passed += late
		}
	}
	return passed, err
}

// next returns where the file begins that is to be read after the present one.
func (r *frameReader) next(ended bool) (start int64, more bool, err error) {
	st, err := os.Stat(r.dir)
	if err != nil {
		return 0, false, err
	}
	// The moment of a change is coarse: what has just changed is listed again.
	if changed := st.ModTime(); !ended && changed.Equal(r.looked) && time.Since(changed) > time.Second {
		return 0, false, nil
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return 0, false, err
	}
	r.looked = st.ModTime()
	var starts []int64 // in order, as the names are
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), outputName+".")
		if at, err := strconv.ParseInt(digits, 10, 64); ok && err == nil && at > r.start {
			starts = append(starts, at)
		}
	}
	switch {
	case len(starts) == 0:
		return 0, false, nil
	case ended || starts[0] <= r.offset:
		return starts[0], true, nil
	}
	// The file that we read may have grown up to the oldest of these.
	if st, err := r.f.Stat(); err != nil || st.Size() > r.pos {
		return starts[0], true, err
	}
	return starts[len(starts)-1], true, nil
}

// advance opens the file that begins at start. One that gave way meanwhile is no error: there is a later one.
func (r *frameReader) advance(start int64) error {
	st, err := r.f.Stat()
	if err != nil {
		return err
	}
	if st.Size() != r.pos || start < r.offset {
		return r.corrupt("there is more, and the next file begins at offset %d", start)
	}
	f, err := os.Open(filepath.Join(r.dir, segmentName(start)))
	if errors.Is(err, os.ErrNotExist) {
		r.looked = time.Time{}
		return nil
	}
	if err != nil {
		return err
	}
	r.skipped += start - r.offset
	err = r.f.Close()
	r.f, r.pos, r.start, r.offset = f, 0, start, start
	return err
}

// readFile is read within one file.
func (r *frameReader) readFile(from int64, emit func(Chunk) error) (int, error) {
	st, err := r.f.Stat()
	if err != nil {
		return 0, err
	}
	size := st.Size()
	if size < r.pos {
		return 0, r.corrupt("the file has shrunk to %d bytes", size)
	}
	passed := 0
	for r.pos+frameHeaderBytes <= size {
		c, end, err := r.header()
		if err != nil {
			return passed, err
		}
		if end > size {
			break
		}
		if err := r.payload(&c, int(end-r.pos-frameHeaderBytes), from); err != nil {
			return passed, err
		}
		if len(c.Bytes) > 0 {
			if err := emit(c); err != nil {
				return passed, err
			}
		}
		r.offset += end - r.pos - frameHeaderBytes
		r.pos = end
		passed++
	}
	return passed, nil
}

// header reads the header at pos, and returns it with the file position of the frame's end.
func (r *frameReader) header() (Chunk, int64, error) {
	var h [frameHeaderBytes]byte
	if err := r.readAt(h[:], r.pos); err != nil {
		return Chunk{}, 0, err
	}
	n := int64(binary.BigEndian.Uint32(h[1:]))
	s := Stream(h[0])
	if (s != Stdout && s != Stderr) || n == 0 || n > chunkMaxBytes {
		return Chunk{}, 0, r.corrupt("there is no frame here")
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(h[5:])))
	return Chunk{Offset: r.offset, Stream: s, At: at}, r.pos + frameHeaderBytes + n, nil
}

// payload puts that part of the n bytes after the header into c which lies at or after from: possibly nothing.
func (r *frameReader) payload(c *Chunk, n int, from int64) error {
	skip := min(max(from-c.Offset, 0), int64(n))
	n -= int(skip)
	if n == 0 {
		return nil
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	c.Offset += skip
	c.Bytes = r.buf[:n]
	return r.readAt(c.Bytes, r.pos+frameHeaderBytes+skip)
}

// readAt fills b. The caller has seen that the file is long enough, so its end means that somebody cut it.
func (r *frameReader) readAt(b []byte, pos int64) error {
	_, err := r.f.ReadAt(b, pos)
	if errors.Is(err, io.EOF) {
		return r.corrupt("the file was cut while it was read")
	}
	return err
}

func (r *frameReader) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s at byte %d (output offset %d): %s",
		Corrupt, r.f.Name(), r.pos, r.offset, fmt.Sprintf(format, args...))
}
