package foreground

import (
	"fmt"
	"os"
	"slices"

	"github.com/perdure/perdure/store"
)

// spoolMemory is how many bytes of output a spool keeps in memory. More goes to a file, which keeps
// as much as a task's log does.
const spoolMemory = 256 << 10

// spool buffers the output of a foreground call, which goes to the task's log if the call leaves
// its turn. Not safe for concurrent use. The zero value is empty.
type spool struct {
	runs   []spoolRun
	end    int64 // bytes written so far, without gaps
	memory []byte
	file   *os.File // already unlinked; nil: everything is in memory
	failed error    // why output was lost; nothing more is kept
}

// write appends a piece of output.
func (s *spool) write(stream string, p []byte) {
	if s.failed != nil || len(p) == 0 {
		return
	}
	if s.file == nil && len(s.memory)+len(p) > spoolMemory {
		if s.failed = s.spill(); s.failed != nil {
			return
		}
	}
	if s.file == nil {
		s.memory = append(s.memory, p...)
	} else if s.failed = s.writeFile(p); s.failed != nil {
		return
	}
	if last := len(s.runs) - 1; last >= 0 && s.runs[last].stream == stream && !s.runs[last].skip {
		s.runs[last].n += int64(len(p))
	} else {
		s.runs = append(s.runs, spoolRun{stream: stream, n: int64(len(p)), at: s.end})
	}
	s.end += int64(len(p))
	s.rotate()
}

// writeFile appends to the file. Output beyond the head goes into a ring buffer.
func (s *spool) writeFile(p []byte) error {
	for at := s.end; len(p) > 0; {
		offset, contiguous := spoolOffset(at)
		n := min(int64(len(p)), contiguous)
		if _, err := s.file.WriteAt(p[:n], offset); err != nil {
			return fmt.Errorf("keep output: %w", err)
		}
		p, at = p[n:], at+n
	}
	return nil
}

// rotate marks output as missing that the ring buffer has overwritten.
func (s *spool) rotate() {
	overwritten := s.end - store.LogTailBytes
	for i := 0; i < len(s.runs) && overwritten > store.LogHeadBytes; i++ {
		r := s.runs[i]
		from, to := max(r.at, store.LogHeadBytes), min(r.at+r.n, overwritten)
		if r.at >= overwritten {
			return
		}
		if r.skip || to <= from {
			continue
		}
		parts := []spoolRun{{stream: r.stream, n: from - r.at, at: r.at}, {n: to - from, at: from, skip: true},
			{stream: r.stream, n: r.at + r.n - to, at: to}}
		parts = slices.DeleteFunc(parts, func(r spoolRun) bool { return r.n == 0 })
		s.runs = slices.Replace(s.runs, i, i+1, parts...)
		if i > 0 && s.runs[i].skip && s.runs[i-1].skip {
			s.runs[i-1].n += s.runs[i].n
			s.runs = slices.Delete(s.runs, i, i+1)
			i--
		}
	}
}

// skip records a gap.
func (s *spool) skip(n int64) {
	if s.failed != nil || n <= 0 {
		return
	}
	if last := len(s.runs) - 1; last >= 0 && s.runs[last].skip {
		s.runs[last].n += n
		return
	}
	s.runs = append(s.runs, spoolRun{n: n, at: s.end, skip: true})
}

// spill moves the buffered output to a file.
func (s *spool) spill() error {
	file, err := os.CreateTemp("", "perdure-output-")
	if err != nil {
		return fmt.Errorf("keep output: %w", err)
	}
	s.file = file
	if err := os.Remove(file.Name()); err != nil { // the file is freed with its descriptor, even after a crash
		return fmt.Errorf("keep output: %w", err)
	}
	if _, err := file.Write(s.memory); err != nil { // it is shorter than the head
		return fmt.Errorf("keep output: %w", err)
	}
	s.memory = nil
	return nil
}

// replay forwards everything to the two functions, in order and in pieces. It returns the error
// that occurred while output was written or read.
func (s *spool) replay(forward func(stream string, p []byte), missing func(n int64)) error {
	piece := make([]byte, 64<<10)
	for _, run := range s.runs {
		if run.skip {
			missing(run.n)
			continue
		}
		for at, left := run.at, run.n; left > 0; {
			n, err := s.read(piece[:min(left, int64(len(piece)))], at)
			if err != nil {
				return fmt.Errorf("read kept output: %w", err)
			}
			forward(run.stream, piece[:n])
			at, left = at+int64(n), left-int64(n)
		}
	}
	return s.failed
}

// read reads bytes from a position, at most as many as are contiguous.
func (s *spool) read(p []byte, at int64) (int, error) {
	if s.file == nil {
		return copy(p, s.memory[at:]), nil
	}
	offset, contiguous := spoolOffset(at)
	p = p[:min(int64(len(p)), contiguous)]
	_, err := s.file.ReadAt(p, offset)
	return len(p), err
}

// drop discards everything.
func (s *spool) drop() {
	if s.file != nil {
		_ = s.file.Close() // the file is unlinked already
	}
	*s = spool{}
}

// spoolRun is a stretch of output of one stream, or a gap.
type spoolRun struct {
	stream string
	n      int64
	at     int64 // position in the output
	skip   bool  // a gap: the output is missing
}

// spoolOffset returns the offset of an output byte in the file, and how many bytes are contiguous
// from there.
func spoolOffset(at int64) (offset, contiguous int64) {
	if at < store.LogHeadBytes {
		return at, store.LogHeadBytes - at
	}
	in := (at - store.LogHeadBytes) % store.LogTailBytes
	return store.LogHeadBytes + in, store.LogTailBytes - in
}
