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

// outputFile is the writing side of the output; the supervisor is its only writer. The first file
// keeps the beginning, and never changes once it is full. Later output goes to a ring of smaller
// files, in which the newest replaces the oldest. So the beginning and the end of any flood are on
// disk, and an offset always means the same byte (R21).
type outputFile struct {
	dir string
	max int64 // of all files together, headers included

	mu      sync.Mutex // guards all below: two pumps write
	f       *os.File
	limit   int64   // of f; then the next file is started
	size    int64   // of f, complete frames only
	ring    []int64 // start offsets of the files after the first, oldest first
	end     int64   // offset of the next payload byte
	rotated int64   // payload bytes that were rotated out
	dropped int64   // payload bytes that were read but never stored
	failed  error   // why nothing more is written
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

// append writes payload in frames. frame has room for the header, followed by n bytes of payload;
// append overwrites parts of it. It never blocks the command for long and never fails it: bytes
// that cannot be stored are counted.
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
		frame, n = frame[keep:], n-keep // the next header overwrites bytes that are written already
	}
}

// write appends a complete frame to the file. After an error it truncates the partial frame, and
// nothing more is written, so that the output never has an unnoticed gap.
func (o *outputFile) write(frame []byte) {
	if _, err := o.f.Write(frame); err != nil {
		o.failed = errors.Join(err, o.f.Truncate(o.size))
		return
	}
	o.size += int64(len(frame))
}

// rotate starts the next file of the ring, and removes the oldest if there are enough. A reader
// that has the removed file open can read it to its end.
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

// close syncs the file and stores the totals in e.
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

// pipe copies one stream of the command to the output file.
type pipe struct {
	stream Stream
	r      *os.File
	rfd    int // r's descriptor, non-blocking; r.Fd would make it blocking
	wfd    int // the command's end, blocking; -1 once closed
	out    *outputFile
}

func newPipe(s Stream, out *outputFile) (*pipe, error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("create a pipe for %s: %w", s, err)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		return nil, fmt.Errorf("create a pipe for %s: %w", s, err)
	}
	return &pipe{stream: s, r: os.NewFile(uintptr(fds[0]), s.String()), rfd: fds[0], wfd: fds[1], out: out}, nil
}

// closeCommandEnd closes our copy of the command's end, so that the end of the output can be
// detected.
func (p *pipe) closeCommandEnd() {
	if p.wfd >= 0 {
		syscall.Close(p.wfd)
		p.wfd = -1
	}
}

// pump copies until the end of the stream. After finish it copies what is in the pipe and returns.
func (p *pipe) pump() {
	defer p.r.Close()
	frame := make([]byte, frameHeaderBytes+chunkMaxBytes)
	for {
		n, err := p.r.Read(frame[frameHeaderBytes:])
		if n > 0 {
			p.out.append(p.stream, frame, n)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.drain(frame)
		}
		if err != nil {
			return
		}
	}
}

// stopReading makes pump return. By then all writers are dead, or do not belong to the command.
func (p *pipe) stopReading() error { return p.r.SetReadDeadline(time.Unix(1, 0)) }

// drain copies what is in the pipe without waiting. The limit is for a foreign process that writes
// for ever; no pipe holds that much.
func (p *pipe) drain(frame []byte) {
	for range 1 << 10 {
		n, err := syscall.Read(p.rfd, frame[frameHeaderBytes:])
		if n <= 0 || err != nil {
			return
		}
		p.out.append(p.stream, frame, n)
	}
}
