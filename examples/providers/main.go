// Providers is a program that keeps a provider of models with its key, and asks a model by the name
// PROVIDER/MODEL. The key is read from stdin, sealed, and stored; a later start needs neither URL
// nor key.
//
//	echo "$KEY" | go run ./examples/providers data https://models.example/v1 small
//	go run ./examples/providers data
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/provider"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: providers DIR [URL MODEL]")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1], os.Args[2:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run stores the provider, if one is given, and asks the default model.
func run(ctx context.Context, dir string, given []string, in io.Reader, out io.Writer) (err error) {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	data, err := local.OpenDataDir(ctx, local.DataDirConfig{Dir: dir, Store: st}) // has the keyring
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	models := provider.New(provider.Config{Source: local.ProviderSource(st, data.Secrets, "")})
	eng, err := local.Open(ctx, local.Config{
		Store: st, Model: models, Tools: tool.NewRegistry(), Storage: data.Storage,
		Catalogue: local.Catalogue{Providers: local.Providers{ByProvider: true}},
	})
	if err != nil {
		return err
	}
	if len(given) > 0 {
		if err := keep(ctx, eng.Providers(), given[0], given[1], in); err != nil {
			return err
		}
	}
	return ask(ctx, eng, out)
}

// keep stores a provider with its key, and makes its model the default.
func keep(ctx context.Context, providers engine.Providers, url, model string, in io.Reader) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	key := strings.TrimSpace(string(text))
	_, err = providers.Put(ctx, engine.ProviderWrite{
		Name: "mine", Kind: engine.ProviderOpenAI, BaseURL: url, Key: &key, Model: model,
	})
	if err == nil {
		_, err = providers.SetDefaultModel(ctx, "", "mine/"+model)
	}
	return err
}

// ask starts a session that names no model, and prints its answer.
func ask(ctx context.Context, eng *local.Engine, out io.Writer) error {
	s, err := eng.Sessions().Create(ctx, perdure.Agent{Instructions: "Be brief."})
	if err == nil {
		_, err = eng.Send(ctx, s.ID, perdure.Text("Say hello."))
	}
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // Run's one result
	go func() { ended <- eng.Run(work) }()
	err = eng.Sessions().WaitIdle(ctx, s.ID)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	events, err := eng.Events(ctx, s.ID, 0, 0)
	for _, event := range events {
		switch f := event.Fact.(type) {
		case perdure.OutputCompleted:
			fmt.Fprintln(out, f.Message.Text())
		case perdure.TurnFailed:
			err = errors.Join(err, fmt.Errorf("the turn failed: %s", f.Code))
		}
	}
	return err
}
