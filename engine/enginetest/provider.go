package enginetest

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func providerLaws() []law {
	return []law{
		{"keeps_a_provider_and_its_key_to_itself", keptProvider},
		{"refuses_what_no_provider_is", wrongProvider},
		{"makes_one_provider_of_many_writes", providerRace},
		{"gives_sessions_the_default_model", defaultModel},
	}
}

const quiet = "steps:\n  - text: done\n    repeat: true\n"

// key is a key as callers give it.
func key(text string) *string { return &text }

func keptProvider(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: quiet, Webhooks: t.TempDir()})
	const secret = "k-that-no-answer-has"
	providers := s.eng.Providers()

	put, err := providers.Put(s.ctx, engine.ProviderWrite{Name: "gate", Kind: engine.ProviderOpenAI, BaseURL: "https://models.test/v1", Key: key(secret), Model: "small"})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := providers.Put(s.ctx, engine.ProviderWrite{Name: "gate", BaseURL: "https://models.test/v1/", Model: "meta/large"})
	if err != nil || !kept.HasKey || kept.Version != put.Version+1 || kept.Model != "meta/large" {
		t.Errorf("the key did not stay: %+v, %v", kept, err)
	}
	if again, err := providers.Put(s.ctx, engine.ProviderWrite{Name: "gate", BaseURL: "https://models.test/v1", Model: "meta/large"}); err != nil || again.Version != kept.Version {
		t.Errorf("a write that changes nothing: %+v, %v", again, err)
	}
	if _, err := providers.Put(s.ctx, engine.ProviderWrite{Name: "gate", BaseURL: "https://elsewhere.test/v1"}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("another URL without a key: %v", err)
	}
	s.Kill(t)
	s.eng = s.Start(t)
	providers = s.eng.Providers()
	got, err := providers.Get(s.ctx, "gate")
	list, failed := providers.List(s.ctx)
	models, broken := providers.Models(s.ctx)
	log, unread := s.eng.Audit().List(s.ctx, engine.AuditQuery{Action: "provider.*"})
	text, _ := json.Marshal([]any{put, kept, got, list, models, log})
	if err = errors.Join(err, failed, broken, unread); err != nil || got.Version != kept.Version || !got.Ready || got.Source != engine.ProviderFromStore ||
		len(log) != 2 || len(models) != 1 || models[0].Name != "gate/meta/large" || strings.Contains(string(text), secret) {
		t.Errorf("got %s, %v", text, err)
	}
	bare, err := providers.Put(s.ctx, engine.ProviderWrite{Name: "gate", Key: key("")})
	if err != nil || bare.HasKey || bare.Ready || bare.BaseURL != "" {
		t.Errorf("without its key: %+v, %v", bare, err)
	}
	if err := providers.Delete(s.ctx, "gate"); err != nil {
		t.Error(err)
	}
	_, err = providers.Get(s.ctx, "gate")
	if again := providers.Delete(s.ctx, "gate"); !errors.Is(again, perdure.NotFound) || !errors.Is(err, perdure.NotFound) {
		t.Errorf("after it was deleted: %v, %v", again, err)
	}
}

func wrongProvider(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: quiet, Webhooks: t.TempDir()})
	const secret = "k-of-a-refused-write"
	if _, err := s.eng.Providers().Put(s.ctx, engine.ProviderWrite{Name: "gate", Kind: engine.ProviderOpenAI}); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]engine.ProviderWrite{
		"no kind": {Name: "new"}, "a strange kind": {Name: "new", Kind: "other"}, "another kind": {Name: "gate", Kind: engine.ProviderAnthropic},
		"an upper case name": {Name: "New", Kind: engine.ProviderOpenAI}, "a name with a separator": {Name: "a:b", Kind: engine.ProviderOpenAI},
		"a long name": {Name: strings.Repeat("a", 64), Kind: engine.ProviderOpenAI}, "no URL": {Name: "new", Kind: engine.ProviderOpenAI, BaseURL: "models"},
		"in the clear":          {Name: "new", Kind: engine.ProviderOpenAI, BaseURL: "http://models.test/v1", Key: key(secret)},
		"a key of two lines":    {Name: "new", Kind: engine.ProviderOpenAI, Key: key(secret + "\n" + secret)},
		"a strange model":       {Name: "new", Kind: engine.ProviderOpenAI, Model: "a\nb"},
		"a password in the URL": {Name: "new", Kind: engine.ProviderOpenAI, BaseURL: "https://a:" + secret + "@models.test"},
	} {
		if _, err := s.eng.Providers().Put(s.ctx, w); !errors.Is(err, perdure.Invalid) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.eng.Providers().Test(s.ctx, "gate", ""); !errors.Is(err, perdure.Invalid) {
		t.Errorf("a test without a model: %v", err)
	}
	if _, err := s.eng.Providers().Test(s.ctx, "none", "small"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("a test of no provider: %v", err)
	}
	for _, wrong := range [][2]string{{"", "a\nb"}, {"An Org", "gate/small"}} {
		if _, err := s.eng.Providers().SetDefaultModel(s.ctx, wrong[0], wrong[1]); !errors.Is(err, perdure.Invalid) {
			t.Errorf("default %q: %v", wrong, err)
		}
	}
}

func providerRace(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: quiet, Webhooks: t.TempDir()})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			_, err := s.eng.Providers().Put(s.ctx, engine.ProviderWrite{Name: "gate", Kind: engine.ProviderOpenAI, Key: key("k")})
			if err != nil && !errors.Is(err, perdure.Conflict) {
				t.Error(err)
			}
		})
	}
	group.Wait()

	all, err := s.eng.Providers().List(s.ctx)
	n := 0
	for _, p := range all {
		if p.Name == "gate" {
			n++
		}
	}
	if _, lost := s.eng.Providers().Get(s.ctx, "gate"); err != nil || lost != nil || n != 1 {
		t.Errorf("%d providers: %+v, %v, %v", n, all, err, lost)
	}
	if err := s.eng.Providers().Delete(s.ctx, "gate"); err != nil { // there is one row
		t.Error(err)
	}
}

func defaultModel(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: quiet, Webhooks: t.TempDir()})
	providers := s.eng.Providers()
	set := func(org, name string) {
		t.Helper()
		if _, err := providers.SetDefaultModel(s.ctx, org, name); err != nil {
			t.Error(err)
		}
	}
	model := func(id perdure.SessionID, a perdure.Agent) string {
		t.Helper()
		made, err := s.eng.Sessions().CreateAs(s.ctx, id, a)
		if err != nil {
			t.Error(err)
		}
		return made.Agent.Model
	}
	is := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	const first, second, third = "session_019aa0000000700080000000000000a1", "session_019aa0000000700080000000000000a2", "session_019aa0000000700080000000000000a3"

	is("without a default", model(first, perdure.Agent{}), "")
	set("", "gate/small")
	set("acme", "gate/other")
	is("with a default", model(second, perdure.Agent{Title: "t"}), "gate/small")
	is("of its own", model(third, perdure.Agent{Model: "gate/own"}), "gate/own")
	set("default", "gate/next") // the runtime's
	is("the same order", model(second, perdure.Agent{Title: "t"}), "gate/small")
	if _, err := s.eng.Sessions().CreateAs(s.ctx, second, perdure.Agent{Title: "another"}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("another order under the id: %v", err)
	}
	found, err := providers.DefaultModel(s.ctx)
	if err != nil || found != (engine.DefaultModel{Name: "gate/next", Source: engine.DefaultFromRuntime}) {
		t.Errorf("got %+v, %v", found, err)
	}
	set("", "")
	set("", "")
	found, err = providers.DefaultModel(s.ctx)
	if err != nil || found.Name != "" {
		t.Errorf("after it was removed: %+v, %v", found, err)
	}
	is("the order of a session without one", model(first, perdure.Agent{}), "")
}
