package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"

	"github.com/perdure/perdure/model"
)

// The wire of a request, as far as it is used.
type (
	body struct {
		Model               string         `json:"model"`
		Messages            []message      `json:"messages"`
		Tools               []tool         `json:"tools,omitempty"`
		MaxTokens           int            `json:"max_tokens,omitempty"`
		MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
		Stream              bool           `json:"stream"`
		StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	}
	streamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
)

// post asks. Whatever is no stream of events becomes an error, its body read and closed.
func (m *Model) post(ctx context.Context, req model.Request) (*http.Response, error) {
	b := m.body(req)
	if b.Model == "" {
		return nil, &model.Error{Code: model.NoModel, Text: "no model is named, neither by the request nor as Config.Name"} // N10
	}
	text, err := json.Marshal(b)
	if err != nil {
		return nil, &model.Error{Code: model.BadToolSchema, Text: "the parameters of a tool are no JSON", Err: err}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.endpoint, bytes.NewReader(text))
	if err != nil {
		return nil, &model.Error{Code: model.Misconfigured, Text: "the request cannot be made", Err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("User-Agent", "perdure")
	if m.cfg.Key != "" {
		r.Header.Set("Authorization", "Bearer "+m.cfg.Key)
	}
	res, err := m.client.Do(r)
	if err != nil {
		return nil, m.mask(transport(err))
	}
	if res.StatusCode == http.StatusOK && streams(res.Header) {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return nil, m.mask(noStream(res))
	}
	return nil, m.mask(refusal(res))
}

// streams reports whether an answer may be a stream of events. A server that does not say what it sends is believed.
func streams(header http.Header) bool {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err != nil && header.Get("Content-Type") == "" || kind == "text/event-stream" || kind == "text/plain"
}

func (m *Model) body(req model.Request) body {
	b := body{Model: cmp.Or(req.Model, m.cfg.Name), Messages: messagesOf(req), Stream: true}
	if !m.cfg.NoUsage {
		b.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	limit := cmp.Or(req.MaxTokens, m.cfg.MaxTokens)
	if m.limit == "max_tokens" {
		b.MaxTokens = limit
	} else {
		b.MaxCompletionTokens = limit
	}
	for _, t := range req.Tools {
		f := function{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
		if len(f.Parameters) == 0 {
			f.Parameters = json.RawMessage(`{"type":"object","properties":{}}`) // some servers refuse a tool without
		}
		b.Tools = append(b.Tools, tool{Type: "function", Function: f})
	}
	return b
}

// noStream is the error for an answer of status 200 that is something else.
func noStream(res *http.Response) *model.Error {
	text := head(res)
	if p := readProblem(text); p.known {
		return &model.Error{Code: p.inStream(), Text: p.message}
	}
	kind := cmp.Or(res.Header.Get("Content-Type"), "nothing")
	why := "is BaseURL right?"
	if mediaType, _, _ := mime.ParseMediaType(kind); mediaType == "application/json" {
		why = "it does not seem to know stream: true, which is needed"
	}
	return &model.Error{Code: model.Misconfigured, Text: fmt.Sprintf("the server answered with %s instead of a stream: %s", kind, why)}
}
