package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// pageBytes is how much of a log is read at once.
const pageBytes = 256 << 10

type taskLog struct {
	Task       string `arg:"" help:"Id, unique id prefix, or title."`
	Offset     int64  `help:"Start at this byte of the log; a negative number counts from the end." placeholder:"BYTES" xor:"from"`
	Tail       *int   `help:"Start with the last N lines; 0 for new lines only." placeholder:"N" xor:"from"`
	Follow     bool   `short:"f" help:"Follow the output until the task ends."`
	Since      string `help:"Only output since this time: a duration such as 10m, or an RFC 3339 time." placeholder:"WHEN"`
	Until      string `help:"Only output until this time, in the same formats." placeholder:"WHEN"`
	Attempt    int    `help:"Only output of this attempt, counted from 1." placeholder:"N"`
	Stream     string `help:"Only this stream: out or err." placeholder:"NAME" enum:",out,err" default:""`
	Grep       string `help:"Only lines that match this regular expression." placeholder:"REGEXP"`
	Timestamps bool   `help:"Print the time before each line."`
	Prefix     bool   `help:"Print the task and stream before each line."`
}

// Run prints a log, byte for byte. On a terminal, control characters are removed.
func (c *taskLog) Run(ctx context.Context, a *app) error {
	tail := -1 // all
	if c.Tail != nil {
		if tail = *c.Tail; tail < 0 {
			return usageError("--tail needs a number of lines, 0 or more", "for instance --tail 100")
		}
	}
	only, err := c.filter(time.Now())
	if err != nil {
		return err
	}
	var out io.Writer = a.out
	if a.Terminal.Stdout && !a.flags.Raw {
		safe := &printableWriter{w: a.out}
		defer safe.Close()
		out = safe
	}
	return a.read(ctx, func(eng Engine) error {
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		at := logPosition{id: t.ID, offset: c.Offset, only: only, notes: a.Stderr, out: bytesOut{out}}
		var lines *lineOut
		if c.Grep != "" || c.Timestamps || c.Prefix || tail > 0 && only.isActive() {
			lines = &lineOut{w: out, grep: only.grep, stamps: c.Timestamps, tailLines: max(tail, 0)}
			if c.Prefix {
				lines.prefix = t.ID
			}
			at.out = lines
		}
		if tail == 0 || tail > 0 && lines == nil {
			if at.offset, err = tailOffset(ctx, eng.Tasks(), t.ID, tail); err != nil {
				return err
			}
		}
		err = c.print(ctx, a, eng.Tasks(), at)
		if lines != nil {
			err = errors.Join(err, lines.close())
		}
		return err
	})
}

// filter returns which parts of a log to print.
func (c *taskLog) filter(now time.Time) (s logFilter, err error) {
	s = logFilter{attempt: c.Attempt, stream: c.Stream}
	if s.since, err = parseTime("since", c.Since, now); err != nil {
		return s, err
	}
	if s.until, err = parseTime("until", c.Until, now); err != nil {
		return s, err
	}
	if c.Grep != "" {
		if s.grep, err = regexp.Compile(c.Grep); err != nil {
			return s, usageError("--grep: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "),
				"use a Go regular expression; (?i)error also matches Error")
		}
	}
	return s, nil
}

// parseTime parses a time: a duration ago, or RFC 3339. Empty: the zero time.
func parseTime(flag, typed string, now time.Time) (time.Time, error) {
	if typed == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(typed); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if days, ok := strings.CutSuffix(typed, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if t, err := time.Parse(time.DateOnly, typed); err == nil {
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339, typed); err == nil {
		return t, nil
	}
	return time.Time{}, usageError(fmt.Sprintf("--%s %q is not a time", flag, typed),
		"use a duration such as 10m, 2h or 7d, a day such as 2006-01-02, or a time such as 2006-01-02T15:04:05Z")
}

// logPosition is how far a log was printed, and where to.
type logPosition struct {
	id     perdure.TaskID
	offset int64
	only   logFilter
	notes  io.Writer // receives notes about missing parts
	out    interface {
		chunk(engine.Chunk) error
		caughtUp() error // everything that existed when the command began was written
	}
}

// print writes the log from an offset on. With -f it continues until the task has ended and its
// whole log is written.
func (c *taskLog) print(ctx context.Context, a *app, eng engine.Tasks, at logPosition) error {
	look := func() (bool, error) {
		t, err := eng.Get(ctx, at.id) // read before the log, so that an ended task has its complete log
		if err != nil {
			return false, fmt.Errorf("read task %s: %w", at.id, err)
		}
		over := false
		if at.offset, over, err = printLog(ctx, eng, at); err == nil {
			err = at.out.caughtUp()
		}
		return over || t.State.Terminal(), err
	}
	if !c.Follow {
		_, err := look()
		return err
	}
	return a.follow(ctx, pollEvery, look)
}

// printLog writes what exists. It returns the next offset, and whether --until was reached.
func printLog(ctx context.Context, eng engine.Tasks, at logPosition) (next int64, over bool, err error) {
	for {
		log, err := eng.Log(ctx, at.id, at.offset, pageBytes)
		var gone *perdure.LogRotated
		if errors.As(err, &gone) {
			fmt.Fprintf(at.notes,
				"perdure: bytes %d to %d of the log were removed by rotation, because the log exceeded its size limit\n", at.offset, gone.First)
			at.offset = gone.First
			continue
		}
		if err != nil {
			return at.offset, false, fmt.Errorf("read the log of %s: %w", at.id, err)
		}
		for _, chunk := range log.Chunks {
			if !at.only.until.IsZero() && chunk.At.After(at.only.until) {
				return at.offset, true, nil
			}
			if !at.only.matches(chunk) {
				continue
			}
			if err := at.out.chunk(chunk); err != nil {
				return at.offset, false, err
			}
		}
		at.offset = log.Next
		if len(log.Chunks) == 0 {
			return at.offset, false, nil
		}
	}
}

// tailOffset returns the offset of the last lines of a log. It reads backwards, so that the length
// of the log does not matter.
func tailOffset(ctx context.Context, eng engine.Tasks, id perdure.TaskID, lines int) (int64, error) {
	log, err := eng.Log(ctx, id, -1, 1)
	if err != nil {
		return 0, fmt.Errorf("read the log of %s: %w", id, err)
	}
	if lines == 0 {
		return log.End, nil
	}
	last := log.End - 1 // a newline at the very end terminates the last line
	for to := last; to > 0; {
		from := max(to-pageBytes, 0)
		page, err := readLog(ctx, eng, id, span64{from, to})
		if err != nil {
			return 0, err
		}
		if begin := to - int64(len(page)); begin > from { // message is before it was removed by rotation
			if i := lastLines(page, &lines); i >= 0 {
				return begin + int64(i) + 1, nil
			}
			return begin, nil
		}
		if i := lastLines(page, &lines); i >= 0 {
			return from + int64(i) + 1, nil
		}
		to = from
	}
	return 0, nil
}

// lastLines counts newlines of a page backwards and subtracts them from lines. It returns the
// position of the newline at which lines becomes 0, or -1 when the page has too few.
func lastLines(page []byte, lines *int) int {
	for i := bytes.LastIndexByte(page, '\n'); i >= 0; i = bytes.LastIndexByte(page[:i], '\n') {
		if *lines--; *lines == 0 {
			return i
		}
	}
	return -1
}

// span64 is a range of a log: the bytes from from up to, but not including, to.
type span64 struct{ from, to int64 }

// readLog returns a range of a log. Where a part of it was removed by rotation, it returns only the
// bytes after that part.
func readLog(ctx context.Context, eng engine.Tasks, id perdure.TaskID, s span64) ([]byte, error) {
	var page []byte
	for at := s.from; at < s.to; {
		log, err := eng.Log(ctx, id, at, int(s.to-at))
		var gone *perdure.LogRotated
		if errors.As(err, &gone) {
			page, at = nil, gone.First
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the log of %s: %w", id, err)
		}
		if len(log.Chunks) == 0 {
			break
		}
		for _, chunk := range log.Chunks {
			page = append(page, chunk.Bytes...)
		}
		at = log.Next
	}
	return page, nil
}
