package openai_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/openai"
)

// newModel makes a model of a server on loopback.
func newModel(t *testing.T, cfg openai.Config) *openai.Model {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "some-model"
	}
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// serve starts a server on loopback and returns a model that asks it, with a client of its own.
func serve(t *testing.T, handler http.Handler, cfg openai.Config) *openai.Model {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	cfg.BaseURL, cfg.HTTP = server.URL+"/v1", server.Client()
	return newModel(t, cfg)
}

// answering answers every request with a status and a body.
func answering(status int, header map[string]string, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

// tape is the transport of a recorded stream: it plays the bytes, and then the error with which the
// connection ends.
type tape struct {
	bytes []byte
	end   error // nil: it ends in order
	stays bool  // it does not end before its request does
}

func (p tape) RoundTrip(r *http.Request) (*http.Response, error) {
	var end io.Reader = failing{p.end}
	if p.stays {
		end = staying{r.Context()}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(io.MultiReader(bytes.NewReader(p.bytes), end)),
	}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

type staying struct{ ctx context.Context }

func (s staying) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// play collects the answer of a recorded stream.
func play(t testing.TB, ctx context.Context, p tape) (model.Answer, error) {
	t.Helper()
	m, err := openai.New(openai.Config{Name: "some-model", BaseURL: "http://recorded.test/v1", HTTP: &http.Client{Transport: p}})
	if err != nil {
		t.Fatal(err)
	}
	return model.Collect(m.Stream(ctx, model.Request{Messages: []perdure.Message{perdure.Text("go")}}), nil)
}

// stream writes chunks, given as JSON, as a stream.
func stream(chunks ...string) []byte {
	var out strings.Builder
	for _, c := range chunks {
		out.WriteString("data: " + c + "\n\n")
	}
	return []byte(out.String())
}

// delta writes a chunk of one choice.
func delta(delta string) string { return `{"choices":[{"index":0,"delta":` + delta + `}]}` }

// finish writes the chunk that ends an answer.
func finish(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

// code returns the code of a model's error; empty: it is none.
func code(err error) model.Code {
	var e *model.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
