package taskrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

const (
	logLimitChars    = 262_144 // of output.log, including prefixes
	resultLimitBytes = 8 << 20 // of result.json
	rawLimitBytes    = 8 << 20 // of raw.txt
)

// artifactPaths holds the paths of a run's files. A path is empty if its file could not be written.
type artifactPaths struct{ log, result, raw string }

// note records the path of a file that was written.
func (p *artifactPaths) note(name string) {
	switch path.Base(name) {
	case logFile:
		p.log = name
	case resultFile:
		p.result = name
	case rawFile:
		p.raw = name
	}
}

// The artifacts that a task's record names.
const (
	logFile    = "output.log"
	resultFile = "result.json"
	rawFile    = "raw.txt"
)

// meta is the content of meta.json.
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

// artifacts returns the files of an attempt that ended. The runtime chooses their names, so no
// secret is in them.
func (ts *Tasks) artifacts(ctx context.Context, t perdure.Task, v Verdict, begins logPage) []tool.FileWrite {
	log, truncated, end, err := ts.outputLog(ctx, t, v, begins)
	if err != nil {
		ts.core.Log.Error("task log not read", "task", t.ID, "error", err)
	}
	m := meta{
		Status: v.Update.State, Attempt: t.Attempt, CreatedAt: t.CreatedAt,
		StartedAt: t.StartedAt, FinishedAt: time.Now().UTC(),
		ExitCode: v.code, LogBytes: end, LogTruncated: truncated,
		ResultBytes: v.body.bytes, ResultTruncated: v.body.cut,
	}
	if v.Update.Error != nil {
		m.ErrorKind = v.Update.Error.Kind
	}
	dir := t.ArtifactDir() + "/"
	files := []tool.FileWrite{
		{Path: dir + logFile, Content: []byte(log)}, {Path: dir + resultFile, Content: v.body.Text},
		{Path: dir + "meta.json", Content: prettyJSON(m)},
	}
	if v.raw != nil && truncated {
		files = append(files, tool.FileWrite{Path: dir + rawFile,
			Content: []byte((*v.raw)[:min(len(*v.raw), rawLimitBytes)])})
	}
	return files
}

// fitsRecord reports a call of a host whose record already holds everything about its end: no
// output, and a short result. Artifacts would only repeat the record, so none are written.
func fitsRecord(t perdure.Task, v Verdict) bool {
	return t.ReadByCaller() && v.noOutput && v.raw == nil && v.tail == "" && v.Update.State == perdure.TaskSucceeded &&
		v.Update.Result != "" && v.Update.Result == perdure.ShortResult(v.result.Result, "")
}

// publish writes artifacts, each fenced by the attempt. An artifact that cannot be written does not
// prevent the end of the run; its name is returned in missing. Lost: another attempt owns the task
// and its files.
func (ts *Tasks) publish(t perdure.Task, files []tool.FileWrite) (paths artifactPaths, missing string, lost error) {
	fence := func(r store.Reader) error {
		_, err := taskrecord.Owned(r, t)
		return err
	}
	for _, w := range files {
		err := ts.environment.WriteFenced(environment.CallOfTask(t), w, fence)
		switch {
		case errors.Is(err, perdure.Lost):
			return paths, missing, err
		case err != nil:
			ts.core.Log.Error("artifact not written", "task", t.ID, "path", w.Path, "error", err)
			missing = strings.TrimPrefix(missing+", "+path.Base(w.Path), ", ")
		default:
			paths.note(w.Path)
		}
	}
	return paths, missing, nil
}

// publishInTx is publish inside the commit that ends the attempt, for files stored in the store:
// all of them are written, or the commit fails.
func (ts *Tasks) publishInTx(tx store.Tx, t perdure.Task, files []tool.FileWrite) (paths artifactPaths, err error) {
	if len(files) == 0 {
		return paths, nil
	}
	if err := sessionfile.New(ts.core.Work, t.Session, true).Recording(environment.CallOfTask(t)).WriteIn(tx, files...); err != nil {
		return paths, err
	}
	for _, w := range files {
		paths.note(w.Path)
	}
	return paths, nil
}

// outputLog builds output.log from the task log: every line with its stream, cut at the limit.
func (ts *Tasks) outputLog(ctx context.Context, t perdure.Task, v Verdict,
	page logPage) (log string, truncated bool, end int64, err error) {
	if v.raw != nil {
		log, truncated = limitLog(*v.raw)
		return log + v.tail, truncated, int64(len(*v.raw)), nil
	}
	var lines lineLog
	offset := int64(0)
	for lines.size() <= logLimitChars && page.err == nil && len(page.chunks) > 0 {
		for _, c := range page.chunks {
			if c.Offset > offset {
				lines.gap(c.Offset - offset)
			}
			lines.write(c.Stream, c.Bytes)
			offset = c.Offset + int64(len(c.Bytes))
		}
		page.err = ts.core.Store.View(ctx, func(r store.Reader) (err error) {
			page.chunks, page.end, err = r.Tasks().ReadLog(t.ID, offset, logPageBytes)
			return err
		})
	}
	log, truncated = limitLog(lines.String())
	return log + v.tail, truncated, page.end, page.err
}

// logPage is a page of a task's log.
type logPage struct {
	chunks []store.LogChunk
	end    int64 // length of the full log
	err    error
}

// logPageBytes is how much of a log is read at once.
const logPageBytes = 256 << 10

// limitLog cuts a log at the limit and appends a line that says so.
func limitLog(log string) (string, bool) {
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

// Content is the content of result.json.
type Content struct {
	Text  []byte
	bytes int  // size of the full result
	cut   bool // text is only the first part
}

// shortContent returns the content of a result that is within the limit.
func shortContent(text []byte) Content { return Content{Text: text, bytes: len(text)} }

// ResultContent returns a result indented for people. A result that would exceed the limit only
// because of the indentation is stored as it is. A result that is itself too large is cut; the task
// still succeeds.
func ResultContent(result json.RawMessage) Content {
	if len(result) > resultLimitBytes {
		head := strings.ToValidUTF8(string(result[:4096]), "")
		return Content{Text: prettyJSON(map[string]any{"truncated": true, "bytes": len(result), "preview": head}),
			bytes: len(result), cut: true}
	}
	if indentedBytes(result) > resultLimitBytes {
		return shortContent(result)
	}
	return shortContent(indentJSON(result))
}

// indentedBytes returns an upper bound of the size of an indented result, without indenting it.
func indentedBytes(result []byte) int {
	total, depth, quoted := len(result), 0, false
	for i := 0; i < len(result); i++ {
		switch c := result[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			total += 1 + 2*depth
		case c == '}' || c == ']':
			depth--
			total += 1 + 2*depth
		case c == ',':
			total += 1 + 2*depth
		case c == ':':
			total++
		}
	}
	return total + 1
}

// prettyJSON writes a value for people.
func prettyJSON(v any) []byte {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return []byte("null\n")
	}
	return append(body, '\n')
}

// indentJSON indents a result for people. Text that is not valid JSON is returned unchanged.
func indentJSON(body json.RawMessage) []byte {
	var out bytes.Buffer
	if json.Indent(&out, body, "", "  ") != nil {
		return body
	}
	out.WriteByte('\n')
	return out.Bytes()
}
