package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// contentTypeJSONLines is the content type of an archive.
const contentTypeJSONLines = "application/x-ndjson"

// Fork creates a session from another one. The client chooses the id, so that a retry finds the
// same fork.
func (e engineSessions) Fork(ctx context.Context, id perdure.SessionID, f engine.Fork) (engine.Session, error) {
	body := struct {
		ID      perdure.SessionID `json:"id"`
		At      int64             `json:"at_seq,omitempty"`
		Effects string            `json:"effects,omitempty"`
		Title   string            `json:"title,omitempty"`
	}{f.ID, f.At, f.Effects, f.Title}
	body.ID = cmp.Or(body.ID, perdure.FormatID[perdure.SessionID](uuid.Must(uuid.NewV7())))
	var s engine.Session
	_, err := e.call(ctx, request{
		what: "fork " + string(id), path: "/v1/sessions/" + segment(id) + "/fork", body: body,
	}, &s)
	return s, err
}

// Export writes a session as JSON lines. It reads the complete response before it writes anything,
// so that a cut-off response can be requested again.
func (e engineSessions) Export(ctx context.Context, id perdure.SessionID, w io.Writer) error {
	var text bytes.Buffer
	r := request{
		what: "export " + string(id), path: "/v1/sessions/" + segment(id) + "/export", accept: contentTypeJSONLines, noTimeout: true,
	}
	if _, err := e.call(ctx, r, &text); err != nil {
		return err
	}
	_, err := text.WriteTo(w)
	if err != nil {
		return fmt.Errorf("export %s: %w", id, err)
	}
	return nil
}

// Import adds an exported session. Limit: the file is too large for the server.
func (e engineSessions) Import(ctx context.Context, r io.Reader, how engine.Import) (engine.Session, error) {
	text, err := io.ReadAll(io.LimitReader(r, engine.MaxArchiveBytes+1))
	switch {
	case err != nil:
		return engine.Session{}, fmt.Errorf("import: %w", err)
	case len(text) > engine.MaxArchiveBytes:
		return engine.Session{}, fmt.Errorf("import: %w: the file has more than %d bytes",
			perdure.Limit, engine.MaxArchiveBytes)
	}
	asked := request{what: "import", path: "/v1/sessions/import", jsonLines: text, noTimeout: true}
	if how.TakeOver {
		asked.query = map[string][]string{"take_over": {"true"}}
	}
	var s engine.Session
	_, err = e.call(ctx, asked, &s)
	if problem := (*Problem)(nil); errors.As(err, &problem) && problem.Code == "too_large" {
		err = fmt.Errorf("%w: %w", perdure.Limit, problem)
	}
	return s, err
}
