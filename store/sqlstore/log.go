package sqlstore

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements of task logs. listChunks relies on store.MaxLogChunkBytes: no chunk that reaches over an
// offset begins further than that before it.
const (
	selectAttempt = `SELECT attempt FROM task WHERE id = $1`
	selectLogEnd  = `SELECT byte_offset + size_bytes FROM task_log WHERE task_id = $1 ORDER BY byte_offset DESC LIMIT 1`
	insertChunk   = `INSERT INTO task_log (task_id, byte_offset, size_bytes, stream, attempt, at_us, body) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	listChunks    = `SELECT byte_offset, stream, attempt, at_us, body FROM task_log
		WHERE task_id = $1 AND byte_offset > $2 AND byte_offset < $3 ORDER BY byte_offset`
)

// AppendLog adds output under the task's attempt and returns the offset of its first byte.
func (tx *Tx) AppendLog(id perdure.TaskID, attempt int, stream string, p []byte) (int64, error) {
	err := tx.holdTask("", id)
	var owner int64
	if err == nil {
		owner, err = one(tx, number, tx.locked(selectAttempt), id)
	}
	if err == nil && owner != int64(attempt) {
		err = fmt.Errorf("%w: attempt %d, the task is at %d", perdure.Lost, attempt, owner)
	}
	var start int64
	if err == nil {
		start, err = tx.logEnd(id)
	}
	if err != nil {
		return 0, fmt.Errorf("append to log of task %s: %w", id, err)
	}
	at := micros(tx.Now())
	for written := 0; written < len(p); {
		chunk := p[written:min(len(p), written+store.MaxLogChunkBytes)]
		if _, err := tx.exec(insertChunk, id, start+int64(written), len(chunk), bytesOf(stream), attempt, at, chunk); err != nil {
			return 0, fmt.Errorf("append to log of task %s: %w", id, err)
		}
		written += len(chunk)
	}
	return start, nil
}

// ReadLog returns chunks from byte offset on, at most max bytes; the first is cut to start at offset.
func (tx *Tx) ReadLog(id perdure.TaskID, offset int64, max int) (chunks []store.LogChunk, end int64, err error) {
	if _, err := one(tx, number, selectAttempt, id); err != nil {
		return nil, 0, fmt.Errorf("read log of task %s: %w", id, err)
	}
	end, err = tx.logEnd(id)
	if err != nil {
		return nil, 0, fmt.Errorf("read log of task %s: %w", id, err)
	}
	from := min(offset, end)
	to := from + min(int64(max), end-from)
	found, err := list(tx, scanChunk, listChunks, id, from-store.MaxLogChunkBytes, to)
	if err != nil {
		return nil, 0, fmt.Errorf("read log of task %s: %w", id, err)
	}
	return cut(found, from, to), end, nil
}

// logEnd returns the length of the log.
func (tx *Tx) logEnd(id perdure.TaskID) (int64, error) {
	end, err := one(tx, number, selectLogEnd, id)
	if missing(err) {
		return 0, nil
	}
	return end, err
}

// cut leaves of the chunks what lies from byte from on and before byte to.
func cut(chunks []store.LogChunk, from, to int64) []store.LogChunk {
	var kept []store.LogChunk
	for _, c := range chunks {
		if before := from - c.Offset; before > 0 {
			before = min(before, int64(len(c.Bytes)))
			c.Bytes, c.Offset = c.Bytes[before:], c.Offset+before
		}
		if room := max(to-c.Offset, 0); room < int64(len(c.Bytes)) {
			c.Bytes = c.Bytes[:room]
		}
		if len(c.Bytes) > 0 {
			kept = append(kept, c)
		}
	}
	return kept
}

func scanChunk(r row) (store.LogChunk, error) {
	var c store.LogChunk
	var stream []byte
	var at int64
	err := r.Scan(&c.Offset, &stream, &c.Attempt, &at, &c.Bytes)
	c.Stream, c.At = string(stream), moment(at)
	return c, err
}
