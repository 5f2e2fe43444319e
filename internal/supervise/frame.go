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

// ringFiles is the maximum number of files for the output after the beginning is full.
const ringFiles = 8

// segmentName returns the name of the ring file that starts at a payload offset.
func segmentName(start int64) string { return fmt.Sprintf("%s.%020d", outputName, start) }

// A frame of the output file: one byte stream, four bytes length, eight bytes Unix microseconds,
// both big-endian, then the payload. A frame is written with one call and never changed, so a
// reader finds complete frames and at most one torn frame at the end.
const (
	frameHeaderBytes = 1 + 4 + 8
	chunkMaxBytes    = 64 << 10
)

func putFrameHeader(b []byte, s Stream, n int, at time.Time) {
	b[0] = byte(s)
	binary.BigEndian.PutUint32(b[1:], uint32(n))
	binary.BigEndian.PutUint64(b[5:], uint64(at.UnixMicro()))
}

// frameReader reads the output of one run from the beginning, file by file. It is not safe for
// concurrent use.
type frameReader struct {
	dir     string
	f       *os.File
	pos     int64  // in f, of the next frame
	offset  int64  // in the payload, of the next frame
	start   int64  // in the payload, of f
	skipped int64  // payload bytes that were rotated out before they were read
	buf     []byte // grows to the largest payload seen

	listedAt time.Time // modification time of the directory when it was last listed
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

// read emits the available complete frames from the payload offset from on, and returns how many
// frames it passed. A torn last frame is left for the next read. If the following output was
// rotated out, read continues with the newest file, since the older ones will soon be rotated out,
// too; after the end of the output it continues with the oldest file that is left.
func (r *frameReader) read(from int64, ended bool, emit func(Chunk) error) (int, error) {
	passed, err := r.readFile(from, emit)
	for err == nil {
		var next int64
		var more bool
		if next, more, err = r.next(ended); err != nil || !more {
			break
		}
		// The current file is complete now. Its last frames may have been written after our last
		// read.
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

// next returns the start of the file to read after the current one.
func (r *frameReader) next(ended bool) (start int64, more bool, err error) {
	st, err := os.Stat(r.dir)
	if err != nil {
		return 0, false, err
	}
	// The modification time is coarse: list a directory again if it has just changed.
	if changed := st.ModTime(); !ended && changed.Equal(r.listedAt) && time.Since(changed) > time.Second {
		return 0, false, nil
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return 0, false, err
	}
	r.listedAt = st.ModTime()
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
	// The current file may have grown up to the oldest of these since we read it.
	if st, err := r.f.Stat(); err != nil || st.Size() > r.pos {
		return starts[0], true, err
	}
	return starts[len(starts)-1], true, nil
}

// advance opens the file that starts at start. If it was rotated out meanwhile, that is no error:
// there is a later one.
func (r *frameReader) advance(start int64) error {
	st, err := r.f.Stat()
	if err != nil {
		return err
	}
	if st.Size() != r.pos || start < r.offset {
		return r.corrupt("there is more data, but the next file begins at offset %d", start)
	}
	f, err := os.Open(filepath.Join(r.dir, segmentName(start)))
	if errors.Is(err, os.ErrNotExist) {
		r.listedAt = time.Time{}
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

// readFile reads as read does, within one file.
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

// header reads the header at pos, and returns it with the position of the frame's end in the file.
func (r *frameReader) header() (Chunk, int64, error) {
	var h [frameHeaderBytes]byte
	if err := r.readAt(h[:], r.pos); err != nil {
		return Chunk{}, 0, err
	}
	n := int64(binary.BigEndian.Uint32(h[1:]))
	s := Stream(h[0])
	if (s != Stdout && s != Stderr) || n == 0 || n > chunkMaxBytes {
		return Chunk{}, 0, r.corrupt("no valid frame")
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(h[5:])))
	return Chunk{Offset: r.offset, Stream: s, At: at}, r.pos + frameHeaderBytes + n, nil
}

// payload stores in c the part of the n payload bytes that lies at or after from, which may be
// empty.
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

// readAt fills b. The caller has checked that the file is long enough, so EOF means that it was
// truncated.
func (r *frameReader) readAt(b []byte, pos int64) error {
	_, err := r.f.ReadAt(b, pos)
	if errors.Is(err, io.EOF) {
		return r.corrupt("the file was truncated while it was read")
	}
	return err
}

func (r *frameReader) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s at byte %d (output offset %d): %s",
		Corrupt, r.f.Name(), r.pos, r.offset, fmt.Sprintf(format, args...))
}
