package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// outputFile is the supervisor's end of the output: the only writer. The first file keeps the beginning, and never changes
// once it is full; what comes later goes to a ring of smaller files, of which the oldest gives way to the newest. So the
// beginning and the end of any flood are on disk, and an offset means the same byte for ever (R21).
type outputFile struct {
	dir string
	max int64 // of all files together, headers included

	mu      sync.Mutex // guards all below: two pumps write
	f       *os.File
	limit   int64   // of f; then the next file is begun
	size    int64   // of f, whole frames only
	ring    []int64 // where the files behind the first begin, the oldest first
	end     int64   // offset of the next byte of payload
	rotated int64   // payload that gave way
	dropped int64   // payload read and never kept
	failed  error   // why nothing is written any more
	ends    [2]End
}

func openOutput(dir string, maxBytes int64) (*outputFile, error) {
	f, err := os.OpenFile(filepath.Join(dir, outputName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	maxBytes = max(maxBytes, MinOutputMaxBytes)
	o := &outputFile{dir: dir, max: maxBytes, f: f, limit: maxBytes / 2}
	o.ends[0].Stream, o.ends[1].Stream = Stdout, Stderr
	return o, nil
}

// append writes one frame: frame has room for the header, then n bytes of payload, and is not whole afterwards. It never
// blocks the command for long and never fails it: what cannot be kept is counted.
func (o *outputFile) append(s Stream, frame []byte, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends[s-Stdout].add(frame[frameHeaderBytes : frameHeaderBytes+n])
	for at := time.Now(); n > 0; {
		if o.failed == nil && o.size+frameHeaderBytes >= o.limit {
			o.failed = o.rotate()
		}
		if o.failed != nil {
			o.dropped += int64(n)
			return
		}
		keep := int(min(int64(n), o.limit-o.size-frameHeaderBytes))
		putFrameHeader(frame, s, keep, at)
		o.write(frame[:frameHeaderBytes+keep])
		if o.failed != nil {
			continue
		}
		o.end += int64(keep)
		frame, n = frame[keep:], n-keep // the next header takes the place of bytes that are written
	}
}

// write adds a whole frame to the file. A frame in the middle is whole or absent: after an error nothing is written behind it,
// so that the output has no hole that nobody knows of.
func (o *outputFile) write(frame []byte) {
	if _, err := o.f.Write(frame); err != nil {
		o.failed = errors.Join(err, o.f.Truncate(o.size))
		return
	}
	o.size += int64(len(frame))
}

// rotate begins the next file of the ring, and removes the oldest where there are enough. A reader who has that one open
// reads it to its end.
func (o *outputFile) rotate() error {
	f, err := os.OpenFile(filepath.Join(o.dir, segmentName(o.end)), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	err = o.f.Close()
	o.f, o.size, o.limit = f, 0, o.max/2/ringFiles
	if o.ring = append(o.ring, o.end); err != nil || len(o.ring) <= ringFiles {
		return err
	}
	oldest := o.ring[0]
	o.rotated += o.ring[1] - oldest
	o.ring = append(o.ring[:0], o.ring[1:]...)
	return os.Remove(filepath.Join(o.dir, segmentName(oldest)))
}

// close puts the file on disk and writes the sums into e.
func (o *outputFile) close(e *Exit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := errors.Join(o.failed, o.f.Sync(), o.f.Close())
	if len(o.ring) > 0 {
		err = errors.Join(err, syncDir(o.dir))
	}
	e.OutputBytes, e.RotatedBytes, e.DroppedBytes = o.end, o.rotated, o.dropped
	for _, end := range o.ends {
		if end.Total > 0 && (o.rotated > 0 || o.dropped > 0) {
			end.Bytes = end.Bytes[max(0, len(end.Bytes)-EndMaxBytes):]
			e.Ends = append(e.Ends, end)
		}
	}
	if err != nil {
		e.OutputError = err.Error()
	}
}

// pipe carries one stream of the command to the output file.
type pipe struct {
	stream Stream
	r      *os.File
	rfd    int // r's descriptor, non-blocking; r.Fd would change that
	wfd    int // the command's end, blocking, or -1 when it was closed
	out    *outputFile
}

func newPipe(s Stream, out *outputFile) (*pipe, error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe for %s: %w", s, err)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		return nil, fmt.Errorf("make a pipe for %s: %w", s, err)
	}
	return &pipe{stream: s, r: os.NewFile(uintptr(fds[0]), s.String()), rfd: fds[0], wfd: fds[1], out: out}, nil
}

// handOver closes our copy of the command's end: from then on the end of the output can be seen.
func (p *pipe) handOver() {
	if p.wfd >= 0 {
		syscall.Close(p.wfd)
		p.wfd = -1
	}
}

// pump reads until the end of the stream. After hurry it takes what is in the pipe and returns.
func (p *pipe) pump() {
	defer p.r.Close()
	frame := make([]byte, frameHeaderBytes+chunkMaxBytes)
	for {
		n, err := p.r.Read(frame[frameHeaderBytes:])
		if n > 0 {
			p.out.append(p.stream, frame, n)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.empty(frame)
		}
		if err != nil {
			return
		}
	}
}

// hurry makes pump return. All writers are dead by then, or strangers.
func (p *pipe) hurry() error { return p.r.SetReadDeadline(time.Unix(1, 0)) }

// empty reads without waiting. The bound is for a stranger who writes for ever; no pipe holds that much.
func (p *pipe) empty(frame []byte) {
	for range 1 << 10 {
		n, err := syscall.Read(p.rfd, frame[frameHeaderBytes:])
		if n <= 0 || err != nil {
			return
		}
		p.out.append(p.stream, frame, n)
	}
}
