package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

const (
	logLimitChars    = 262_144 // of output.log, prefixes counted (BG12)
	resultLimitBytes = 8 << 20 // of result.json
	rawLimitBytes    = 8 << 20 // of raw.txt
)

// artifactPaths is where a run's files stand; a path is empty when its file could not be written.
type artifactPaths struct{ log, result string }

// meta is what meta.json says of a run (BG14).
type meta struct {
	Status          perdure.TaskState `json:"status"`
	ErrorKind       perdure.ErrorKind `json:"error_kind,omitempty"`
	Attempt         int               `json:"attempt"`
	CreatedAt       time.Time         `json:"created_at"`
	StartedAt       time.Time         `json:"started_at"`
	FinishedAt      time.Time         `json:"finished_at"`
	ExitCode        *int              `json:"exit_code,omitempty"`
	LogBytes        int64             `json:"log_bytes"`
	LogTruncated    bool              `json:"log_truncated"`
	ResultBytes     int               `json:"result_bytes"`
	ResultTruncated bool              `json:"result_truncated"`
}

// publish writes the artifacts of an attempt that ended, each under its fence (RC18). One that cannot be written does not
// stop the end of the run; its name is returned (BG15). Lost: another attempt has the task, and its files are another's.
func (e *Effects) publish(ctx context.Context, t perdure.Task, v verdict) (paths artifactPaths, missing string, lost error) {
	log, truncated, end, err := e.outputLog(ctx, t, v)
	if err != nil {
		e.cfg.Log.Error("a task's log cannot be read", "task", t.ID, "error", err)
	}
	body, cutBody := limitResult(v.body)
	m := meta{
		Status: v.update.State, Attempt: t.Attempt, CreatedAt: t.CreatedAt, StartedAt: t.StartedAt, FinishedAt: time.Now().UTC(),
		ExitCode: v.code, LogBytes: end, LogTruncated: truncated, ResultBytes: len(v.body), ResultTruncated: cutBody,
	}
	if v.update.Error != nil {
		m.ErrorKind = v.update.Error.Kind
	}
	fence := func(r store.Reader) error {
		_, err := owned(r, t)
		return err
	}
	write := func(name string, content []byte) string {
		path := t.ArtifactDir() + "/" + name
		if lost != nil {
			return ""
		}
		if err := e.writeFenced(t.Session, tool.FileWrite{Path: path, Content: content}, fence); err != nil {
			if errors.Is(err, perdure.Lost) {
				lost = err
				return ""
			}
			e.cfg.Log.Error("an artifact was not written", "task", t.ID, "path", path, "error", err)
			missing = strings.TrimPrefix(missing+", "+name, ", ")
			return ""
		}
		return path
	}
	paths.log, paths.result = write("output.log", []byte(log)), write("result.json", body)
	write("meta.json", prettyJSON(m))
	if v.raw != nil && truncated {
		write("raw.txt", []byte((*v.raw)[:min(len(*v.raw), rawLimitBytes)]))
	}
	return paths, missing, lost
}

// writeFile writes a file of the runtime's own that is nobody's work. It outlives the context of the work that it tells about.
func (e *Effects) writeFile(session perdure.SessionID, w tool.FileWrite) error {
	return e.writeFenced(session, w, nil)
}

// writeFenced is writeFile, if the fence lets it: in the same commit where files are the store's, and else right before.
func (e *Effects) writeFenced(session perdure.SessionID, w tool.FileWrite, fence func(store.Reader) error) error {
	ctx, cancel := settleContext(context.Background())
	defer cancel()
	return e.guarded("write "+w.Path, func() error {
		_, files := e.cfg.Files(session)
		switch {
		case fence == nil:
		case e.ownFiles:
			files = sessionfile.New(fenced{Store: e.work, fence: fence}, session, true)
		default:
			if err := e.cfg.Store.View(ctx, fence); err != nil {
				return err
			}
		}
		if files == nil {
			return fmt.Errorf("write %s: %w: no file store", w.Path, perdure.Unavailable)
		}
		_, err := files.Write(ctx, w)
		return err
	})
}

// outputLog makes output.log out of the task log: every piece with its stream, cut at the cap (BG12).
func (e *Effects) outputLog(ctx context.Context, t perdure.Task, v verdict) (log string, truncated bool, end int64, err error) {
	if v.raw != nil {
		log, truncated = capLog(*v.raw)
		return log + v.tail, truncated, int64(len(*v.raw)), nil
	}
	var b strings.Builder
	chars := 0
	for offset := int64(0); chars <= logLimitChars; {
		var chunks []store.LogChunk
		err = e.cfg.Store.View(ctx, func(r store.Reader) error {
			chunks, end, err = r.ReadLog(t.ID, offset, 256<<10)
			return err
		})
		if err != nil || len(chunks) == 0 {
			break
		}
		for _, c := range chunks {
			piece := "[" + c.Stream + "] " + strings.ToValidUTF8(string(c.Bytes), "\uFFFD")
			b.WriteString(piece)
			chars += utf8.RuneCountInString(piece)
			offset = c.Offset + int64(len(c.Bytes))
		}
	}
	log, truncated = capLog(b.String())
	return log + v.tail, truncated, end, err
}

// capLog cuts a log at its cap, and says so in the log.
func capLog(log string) (string, bool) {
	if utf8.RuneCountInString(log) <= logLimitChars {
		return log, false
	}
	n := 0
	for i := range log {
		if n == logLimitChars {
			log = log[:i]
			break
		}
		n++
	}
	return fmt.Sprintf("%s\n[system] background output truncated at %d characters\n", log, logLimitChars), true
}

// limitResult keeps result.json within its cap; a result that is too large stays a success (BG14).
func limitResult(body []byte) ([]byte, bool) {
	if len(body) <= resultLimitBytes {
		return body, false
	}
	head := strings.ToValidUTF8(string(body[:4096]), "")
	return prettyJSON(map[string]any{"truncated": true, "bytes": len(body), "preview": head}), true
}

// prettyJSON writes a value for people.
func prettyJSON(v any) []byte {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return []byte("null\n")
	}
	return append(body, '\n')
}

// indentJSON writes a result for people, as it is.
func indentJSON(body json.RawMessage) []byte {
	var out bytes.Buffer
	if json.Indent(&out, body, "", "  ") != nil {
		return body
	}
	out.WriteByte('\n')
	return out.Bytes()
}
