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

// outputFile is the supervisor's end of the output file: the only writer.
type outputFile struct {
	max int64

	mu      sync.Mutex // guards all below: two pumps write
	f       *os.File
	size    int64 // of the file, whole frames only
	kept    int64 // payload in the file
	dropped int64 // payload read and not kept
	failed  error // why nothing is written any more
	ends    [2]End
}

func openOutput(dir string, maxBytes int64) (*outputFile, error) {
	f, err := os.OpenFile(filepath.Join(dir, outputName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &outputFile{max: maxBytes, f: f}, nil
}

// append writes one frame: frame has room for the header, then n bytes of payload. It never blocks the command for long
// and never fails it: what cannot be kept is counted.
func (o *outputFile) append(s Stream, frame []byte, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := int(min(int64(n), o.max-o.kept))
	if o.dropped += int64(n - keep); keep < n && o.failed == nil {
		end := &o.ends[0]
		if s == Stderr {
			end = &o.ends[1]
		}
		end.Stream = s
		end.add(frame[frameHeaderBytes+keep : frameHeaderBytes+n])
	}
	if keep <= 0 {
		return
	}
	if o.failed != nil {
		o.dropped += int64(keep)
		return
	}
	frame = frame[:frameHeaderBytes+keep]
	putFrameHeader(frame, s, keep, time.Now())
	if _, err := o.f.Write(frame); err != nil {
		// A frame in the middle is whole or absent. Nothing is written behind it, so that the output has no hole.
		o.failed = errors.Join(err, o.f.Truncate(o.size))
		o.dropped += int64(keep)
		return
	}
	o.size += int64(len(frame))
	o.kept += int64(keep)
}

// close puts the file on disk and writes the sums into e.
func (o *outputFile) close(e *Exit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := errors.Join(o.failed, o.f.Sync(), o.f.Close())
	e.OutputBytes, e.DroppedBytes = o.kept, o.dropped
	for _, end := range o.ends {
		if end.Dropped > 0 {
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
