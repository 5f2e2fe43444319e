package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// The headers of conditional requests (H6).
const (
	ifMatch     = "If-Match"
	ifNoneMatch = "If-None-Match"

	contentTypeBytes = "application/octet-stream"
)

// contentTag returns the ETag of a file: the SHA-256 of its bytes.
func contentTag(content []byte) string {
	sum := sha256.Sum256(content)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func sessionPath(id perdure.SessionID) string { return "/v1/sessions/" + segment(id) }

// keySegment escapes a key for a path, including the keys "." and "..".
func keySegment(key string) string {
	if key == "." || key == ".." {
		return strings.ReplaceAll(key, ".", "%2E")
	}
	return url.PathEscape(key)
}

// filePath returns the URL path of a file. An invalid file path is sent in a form that the server
// refuses with its own reason.
func filePath(id perdure.SessionID, name string) string {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(name, "/"), "/"), "/")
	for i, part := range parts {
		parts[i] = keySegment(part)
	}
	return sessionPath(id) + "/files/" + strings.Join(parts, "/")
}

// checkPath refuses a file path that a URL cannot represent.
func checkPath(name string) error {
	if !strings.HasPrefix(name, "/") || strings.Contains(name, "//") {
		return fmt.Errorf("%w path %q: it must be absolute and begin with /, without an empty part",
			perdure.Invalid, name)
	}
	return nil
}

func (e engineFiles) Get(ctx context.Context, id perdure.SessionID, name string, content bool) (f engine.File, err error) {
	if err := checkPath(name); err != nil {
		return f, err
	}
	r := request{
		what: "file " + name + " of " + string(id), path: sessionPath(id) + "/files:stat",
		query: url.Values{"path": {name}},
	}
	if _, err = e.call(ctx, r, &f); err != nil || !content || f.Directory {
		return f, err
	}
	var text bytes.Buffer
	r.path, r.query, r.accept = filePath(id, name), nil, contentTypeBytes
	if _, err = e.call(ctx, r, &text); err != nil {
		return f, err
	}
	f.Content, f.SizeBytes = append([]byte{}, text.Bytes()...), int64(text.Len())
	return f, nil
}

func (e engineFiles) List(ctx context.Context, id perdure.SessionID, dir string, deep bool) ([]engine.File, error) {
	r := request{
		what: "files of " + string(id), path: sessionPath(id) + "/files", query: url.Values{
			"path": {dir}, "deep": {strconv.FormatBool(deep)},
		},
	}
	return list[engine.File](ctx, e.Engine, r, 0)
}

// Write writes a file. A retry has no further effect.
func (e engineFiles) Write(ctx context.Context, id perdure.SessionID, w engine.FileWrite) (f engine.File, err error) {
	if err := checkPath(w.Path); err != nil {
		return f, err
	}
	r := request{
		what: "write " + w.Path + " of " + string(id), path: filePath(id, w.Path), method: http.MethodPut,
		raw: w.Content, actor: w.By,
	}
	if r.raw == nil {
		r.raw = []byte{}
	}
	switch {
	case w.If != nil:
		r.header = map[string]string{ifMatch: contentTag(*w.If)}
	case w.New:
		r.header = map[string]string{ifNoneMatch: "*"}
	default:
		r.query = url.Values{"overwrite": {"true"}}
	}
	_, err = e.call(ctx, r, &f)
	return f, err
}

func (e engineFiles) Remove(ctx context.Context, id perdure.SessionID, o engine.FileRemoval) error {
	if err := checkPath(o.Path); err != nil {
		return err
	}
	r := request{what: "remove " + o.Path + " of " + string(id), path: filePath(id, o.Path), remove: true, actor: o.By}
	if o.If != nil {
		r.header = map[string]string{ifMatch: contentTag(*o.If)}
	}
	if o.Recursive {
		r.query = url.Values{"recursive": {"true"}}
	}
	_, err := e.call(ctx, r, nil)
	return err
}

func (e engineFiles) Move(ctx context.Context, id perdure.SessionID, m engine.FileMove) (engine.File, error) {
	return fetch[engine.File](ctx, e.Engine, request{
		what: "move " + m.From + " of " + string(id), path: sessionPath(id) + "/files:move", body: m, actor: m.By,
	})
}

func (e engineFiles) Grep(
	ctx context.Context, id perdure.SessionID, s engine.FileSearch,
) (engine.FileMatches, error) {
	query := url.Values{"pattern": {s.Pattern}}
	for name, value := range map[string]string{"path": s.Directory, "glob": s.Glob} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if s.IgnoreCase {
		query.Set("ignore_case", "true")
	}
	if s.Limit > 0 {
		query.Set("limit", strconv.Itoa(s.Limit))
	}
	return fetch[engine.FileMatches](ctx, e.Engine, request{
		what: "search files of " + string(id), path: sessionPath(id) + "/files:grep", query: query, noTimeout: true,
	})
}

// List lists the values whose keys start with a prefix.
func (e engineValues) List(ctx context.Context, id perdure.SessionID, prefix string) ([]engine.ValueStat, error) {
	r := request{
		what: "values of " + string(id), path: sessionPath(id) + "/values", query: url.Values{"prefix": {prefix}},
	}
	return list[engine.ValueStat](ctx, e.Engine, r, 0)
}

func (e engineValues) Get(ctx context.Context, id perdure.SessionID, key string) (engine.Value, error) {
	v, _, err := e.value(ctx, id, key)
	return v, err
}

// value returns a value with its ETag.
func (e *Engine) value(ctx context.Context, id perdure.SessionID, key string) (v engine.Value, tag string, err error) {
	header, err := e.call(ctx, request{what: fmt.Sprintf("value %q of %s", key, id), path: valuePath(id, key)}, &v)
	return v, header.Get("ETag"), err
}

func valuePath(id perdure.SessionID, key string) string {
	return sessionPath(id) + "/values/" + keySegment(key)
}

// condition returns the header of a write that requires the value that was read; nil: any value.
func (e *Engine) condition(
	ctx context.Context, id perdure.SessionID, key string, read *engine.ValueStat,
) (map[string]string, error) {
	if read == nil {
		return nil, nil
	}
	now, tag, err := e.value(ctx, id, key)
	if err != nil {
		return nil, err
	}
	if !now.Same(*read) {
		return nil, fmt.Errorf("value %q: %w: it changed since it was read; read it again", key, perdure.Conflict)
	}
	return map[string]string{ifMatch: tag}, nil
}

func (e engineValues) Set(ctx context.Context, id perdure.SessionID, w engine.ValueWrite) (v engine.Value, err error) {
	if w.Key == "" {
		return v, fmt.Errorf("%w key: it is empty", perdure.Invalid)
	}
	body := struct {
		Value string `json:"value"`
	}{w.Text}
	r := request{what: fmt.Sprintf("set value %q of %s", w.Key, id), path: valuePath(id, w.Key), body: body, put: true}
	if w.New {
		r.header = map[string]string{ifNoneMatch: "*"}
	} else if r.header, err = e.condition(ctx, id, w.Key, w.If); err != nil {
		if errors.Is(err, perdure.NotFound) && w.If != nil {
			err = fmt.Errorf("value %q: %w: it was removed after it was read", w.Key, perdure.Conflict)
		}
		return v, err
	}
	_, err = e.call(ctx, r, &v)
	return v, err
}

func (e engineValues) Remove(
	ctx context.Context, id perdure.SessionID, key string, read *engine.ValueStat,
) (err error) {
	r := request{what: fmt.Sprintf("remove value %q of %s", key, id), path: valuePath(id, key), remove: true}
	if r.header, err = e.condition(ctx, id, key, read); err != nil {
		return err
	}
	_, err = e.call(ctx, r, nil)
	return err
}

func (e engineSecrets) List(ctx context.Context, id perdure.SessionID) ([]engine.Secret, error) {
	return list[engine.Secret](ctx, e.Engine, request{what: "secrets of " + string(id), path: sessionPath(id) + "/secrets"}, 0)
}

// Set stores a secret; the server encrypts it.
func (e engineSecrets) Set(ctx context.Context, id perdure.SessionID, w engine.SecretWrite) error {
	if w.Name == "" {
		return fmt.Errorf("%w name: give 1 to 256 bytes", perdure.Invalid)
	}
	body := struct {
		Value string   `json:"value"`
		Hosts []string `json:"hosts,omitempty"`
	}{w.Value, w.Hosts}
	_, err := e.call(ctx, request{
		what: fmt.Sprintf("set secret %q of %s", w.Name, id), path: secretPath(id, w.Name), body: body, put: true,
	}, nil)
	return err
}

func secretPath(id perdure.SessionID, name string) string {
	return sessionPath(id) + "/secrets/" + keySegment(name)
}

func (e engineSecrets) Remove(ctx context.Context, id perdure.SessionID, name string) error {
	_, err := e.call(ctx, request{
		what: fmt.Sprintf("remove secret %q of %s", name, id), path: secretPath(id, name), remove: true,
	}, nil)
	return err
}

func (e engineSessions) Change(
	ctx context.Context, id perdure.SessionID, o engine.SessionChange,
) (s engine.Session, err error) {
	body := struct {
		Title  *string              `json:"title,omitempty"`
		Labels perdure.LabelChanges `json:"labels,omitempty"`
	}{o.Title, o.Labels}
	r := request{
		what: "change session " + string(id), path: sessionPath(id), body: body, method: http.MethodPatch, actor: o.By,
	}
	if o.If != 0 {
		header, err := e.call(ctx, request{what: r.what, path: r.path}, &s)
		if err != nil {
			return s, err
		}
		if s.LastSeq != o.If {
			return engine.Session{}, fmt.Errorf("%s: %w: it has changed since it was read; read it again",
				r.what, perdure.Conflict)
		}
		r.header = map[string]string{ifMatch: header.Get("ETag")}
	}
	s = engine.Session{}
	_, err = e.call(ctx, r, &s)
	return s, err
}

// CancelWhere requests the end of many tasks. The client creates a missing id, so that a retry
// finds the same bulk.
func (e engineTasks) CancelWhere(ctx context.Context, o engine.BulkCancel) (engine.Bulk, error) {
	o.ID = cmp.Or(o.ID, perdure.FormatID[perdure.BulkID](uuid.Must(uuid.NewV7())))
	body := struct {
		ID     perdure.BulkID    `json:"id"`
		Filter engine.TaskFilter `json:"filter"`
		DryRun bool              `json:"dry_run,omitempty"`
		Reason string            `json:"reason,omitempty"`
	}{o.ID, o.Filter, o.DryRun, o.Why}
	return fetch[engine.Bulk](ctx, e.Engine, request{what: "cancel tasks", path: "/v1/tasks:cancel", body: body, actor: o.By})
}

func (e engineTasks) Bulk(ctx context.Context, id perdure.BulkID) (engine.Bulk, error) {
	return fetch[engine.Bulk](ctx, e.Engine, request{what: "bulk " + string(id), path: "/v1/bulks/" + segment(id)})
}
