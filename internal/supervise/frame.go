package supervise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

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

// frameReader reads the output file of one run from its beginning. Not safe for concurrent use.
type frameReader struct {
	f      *os.File
	pos    int64  // in the file, of the next frame
	offset int64  // in the payload, of the next frame
	buf    []byte // grows to the largest payload seen
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
	return &frameReader{f: f}, nil
}

func (r *frameReader) Close() error { return r.f.Close() }

// read emits the whole frames that are there, from the payload offset from on, and returns how many it passed. A torn
// last frame is left for the next read.
func (r *frameReader) read(from int64, emit func(Chunk) error) (int, error) {
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
