package sqlstore

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements of task logs. listChunks relies on store.MaxLogChunkBytes: no chunk that contains
// an offset starts further before it. Only rows without a body are longer: they represent gaps.
const (
	selectAttempt = `SELECT attempt FROM task WHERE id = $1`
	selectLogEnd  = `SELECT byte_offset + size_bytes FROM task_log WHERE task_id = $1 ORDER BY byte_offset DESC LIMIT 1`
	insertChunk   = `INSERT INTO task_log (task_id, byte_offset, size_bytes, stream, attempt, at_us, body) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	listChunks    = `SELECT byte_offset, stream, attempt, at_us, body FROM task_log
		WHERE task_id = $1 AND byte_offset > $2 AND byte_offset < $3 ORDER BY byte_offset`
	selectNextChunk = `SELECT byte_offset FROM task_log WHERE task_id = $1 AND byte_offset > $2 AND stream <> $3 ORDER BY byte_offset LIMIT 1`
	deleteChunks    = `DELETE FROM task_log WHERE task_id = $1 AND byte_offset >= $2 AND byte_offset < $3 AND byte_offset + size_bytes <= $3`
)

// AppendLog adds output under the task's attempt and returns the offset of its first byte.
func (tx taskStore) AppendLog(id perdure.TaskID, attempt int, stream string, p []byte) (int64, error) {
	start, err := tx.logOf(id, attempt)
	if err != nil {
		return 0, fmt.Errorf("append to log of task %s: %w", id, err)
	}
	at := micros(tx.Now())
	for written := 0; written < len(p); {
		chunk := p[written:min(len(p), written+store.MaxLogChunkBytes)]
		if _, err := tx.exec(insertChunk, id, start+int64(written), len(chunk), bytesOf(stream), attempt, at,
			chunk); err != nil {
			return 0, fmt.Errorf("append to log of task %s: %w", id, err)
		}
		written += len(chunk)
	}
	if err := tx.rotateLog(id, start, start+int64(len(p))); err != nil {
		return 0, fmt.Errorf("append to log of task %s: %w", id, err)
	}
	return start, nil
}

func (tx taskStore) SkipLog(id perdure.TaskID, attempt int, n int64) error {
	start, err := tx.logOf(id, attempt)
	if err == nil && n > 0 {
		_, err = tx.exec(insertChunk, id, start, n, bytesOf(skippedStream), attempt, micros(tx.Now()), []byte{})
	}
	if err == nil {
		err = tx.rotateLog(id, start, start+n)
	}
	return wrap(err, "skip in log of task %s", id)
}

// skippedStream is the stream of rows that represent gaps.
const skippedStream = "\x00skipped"

// logOf locks a log that an attempt may write to and returns its length.
func (tx *Tx) logOf(id perdure.TaskID, attempt int) (int64, error) {
	if err := tx.holdTask("", id); err != nil {
		return 0, err
	}
	owner, err := one(tx, number, tx.locked(selectAttempt), id)
	if err != nil {
		return 0, err
	}
	if owner != int64(attempt) {
		return 0, fmt.Errorf("%w: attempt %d, the task is at %d", perdure.Lost, attempt, owner)
	}
	return tx.logEnd(id)
}

// rotateLog removes rows between the head and the tail of a long log. It works only when the log
// has crossed a multiple of rotateStep, so that few appends pay for it. A row is removed only if
// all of it is before the tail; the last row, which tells the end of the log, always stays.
func (tx *Tx) rotateLog(id perdure.TaskID, before, end int64) error {
	const rotateStep = 1 << 20
	if last := end - store.LogTailBytes - store.MaxLogChunkBytes; last > store.LogHeadBytes &&
		before/rotateStep != end/rotateStep {
		_, err := tx.exec(deleteChunks, id, int64(store.LogHeadBytes), last)
		return err
	}
	return nil
}

// ReadLog returns chunks from byte offset on, at most max bytes; the first is cut to start at
// offset.
func (tx taskStore) ReadLog(id perdure.TaskID, offset int64, max int) (chunks []store.LogChunk, end int64, err error) {
	if _, err := one(tx.Tx, number, selectAttempt, id); err != nil {
		return nil, 0, fmt.Errorf("read log of task %s: %w", id, err)
	}
	end, err = tx.logEnd(id)
	if err != nil {
		return nil, 0, fmt.Errorf("read log of task %s: %w", id, err)
	}
	from := min(offset, end)
	to := from + min(int64(max), end-from)
	found, err := list(tx.Tx, scanChunk, listChunks, id, from-store.MaxLogChunkBytes, to)
	if chunks = cut(found, from, to); err == nil && len(chunks) == 0 && from < to {
		var first int64
		if first, err = one(tx.Tx, number, selectNextChunk, id, from, bytesOf(skippedStream)); missing(err) {
			return nil, end, nil // the log ends with a gap
		} else if err == nil {
			err = &perdure.LogRotated{Offset: from, First: first}
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read log of task %s: %w", id, err)
	}
	return chunks, end, nil
}

// logEnd returns the length of the log.
func (tx *Tx) logEnd(id perdure.TaskID) (int64, error) {
	end, err := one(tx, number, selectLogEnd, id)
	if missing(err) {
		return 0, nil
	}
	return end, err
}

// cut returns the parts of the chunks from byte from to before byte to, up to the first gap.
func cut(chunks []store.LogChunk, from, to int64) []store.LogChunk {
	var within []store.LogChunk
	next := from
	for _, c := range chunks {
		if before := from - c.Offset; before > 0 {
			before = min(before, int64(len(c.Bytes)))
			c.Bytes, c.Offset = c.Bytes[before:], c.Offset+before
		}
		if room := max(to-c.Offset, 0); room < int64(len(c.Bytes)) {
			c.Bytes = c.Bytes[:room]
		}
		if c.Offset > next {
			break
		}
		if len(c.Bytes) > 0 {
			next = c.Offset + int64(len(c.Bytes))
			within = append(within, c)
		}
	}
	return within
}

func scanChunk(r row) (store.LogChunk, error) {
	var c store.LogChunk
	var stream []byte
	var at int64
	err := r.Scan(&c.Offset, &stream, &c.Attempt, &at, &c.Bytes)
	c.Stream, c.At = string(stream), moment(at)
	return c, err
}
