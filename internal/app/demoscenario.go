package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/internal/cli/demo"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/core"
	"github.com/perdure/perdure/tool/subagent"
)

//go:embed demo/agents.yaml
var demoAgents []byte

// openDemoRuntime opens a working engine for a demo that kills nothing. Other commands reach it by
// the socket of its data directory.
func openDemoRuntime(ctx context.Context, set demo.RuntimeOptions) (engine.Engine, func() error, error) {
	data := filepath.Join(set.Dir, "data")
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: data})
	if err != nil {
		return nil, nil, err
	}
	eng, err := openScenario(ctx, set, st)
	if err != nil {
		return nil, nil, errors.Join(err, st.Close())
	}
	door := newAPIServer(eng, st, data, set.Log)
	if err := errors.Join(door.openSocket(), door.openPages(set.Addr)); err != nil {
		return nil, nil, errors.Join(err, door.close(), st.Close())
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // capacity 1: one result
	go func() { ended <- door.serveWorkers(work, eng.Run) }()
	return eng, func() error {
		stop()
		return errors.Join(<-ended, st.Close())
	}, nil
}

// openScenario creates the engine of a demo.
func openScenario(ctx context.Context, set demo.RuntimeOptions, st *sqlite.Store) (*local.Engine, error) {
	if set.Scenario == demo.ScenarioCrash {
		return demoChild{Dir: set.Dir, Log: set.Log}.open(ctx, st)
	}
	cfg := local.Config{Store: st, Tools: tool.NewRegistry(core.Tools()...), Log: set.Log}
	var (
		agent model.Model
		tools []tool.Tool
		err   error
	)
	switch set.Scenario {
	case demo.ScenarioAgents:
		agent, err = scripted.Parse("demo agents", demoAgents)
		tools = append(append(subagent.Tools(), background.Tools(background.Config{})...), countWords(set.Dir))
	case demo.ScenarioApprovals:
		agent, err = scripted.New(payingAgent())
		tools, cfg.Policies.Permit = []tool.Tool{readInvoice(set.Dir), pay(set.Dir)}, askAbove
	default:
		err = fmt.Errorf("%w: unknown scenario %q", perdure.Invalid, set.Scenario)
	}
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		cfg.Tools.Register(t)
	}
	cfg.Model = agent
	return local.Open(ctx, cfg)
}

type wordsIn struct {
	Part string `json:"part" jsonschema:"which part, by its number"`
}

type wordsOut struct {
	Words int `json:"words"`
}

// countWords is the work of a subagent.
func countWords(dir string) tool.Tool {
	spec := tool.Spec{Name: "count_words", DisplayName: "Count words", Description: "Counts the words of a part.",
		Class: perdure.Pure}
	return tool.New(spec, func(ctx context.Context, in wordsIn, _ tool.Env) (wordsOut, error) {
		number := strings.Trim(in.Part, "abcdefghijklmnopqrstuvwxyz, ")
		text, err := os.ReadFile(filepath.Join(dir, "work", "parts", filepath.Base(number)+".txt"))
		if err != nil {
			return wordsOut{}, err
		}
		if !pause(ctx, 200*time.Millisecond) {
			return wordsOut{}, context.Cause(ctx)
		}
		return wordsOut{Words: len(strings.Fields(string(text)))}, nil
	})
}

// payingAgent reads all invoices, and then pays them.
func payingAgent() scripted.Script {
	var read, paid []scripted.Call
	for _, invoice := range demo.Invoices() {
		read = append(read, scripted.Call{Name: "read_invoice", Args: map[string]any{"number": invoice.Number}})
		paid = append(paid, scripted.Call{Name: "pay", Args: invoice})
	}
	return scripted.Script{Name: "demo approvals", Steps: []scripted.Step{
		{Reply: scripted.Reply{Text: "I read the invoices.", Calls: read}},
		{Reply: scripted.Reply{Text: "I pay them.", Calls: paid}},
		{Reply: scripted.Reply{Text: "All that I was allowed to pay is paid."}, Repeat: true},
	}}
}

type invoiceIn struct {
	Number int `json:"number" jsonschema:"which invoice"`
}

// readInvoice is the tool that needs no approval.
func readInvoice(dir string) tool.Tool {
	spec := tool.Spec{Name: "read_invoice", DisplayName: "Read invoice", Description: "Reads an invoice.",
		Class: perdure.Pure}
	return tool.New(spec, func(_ context.Context, in invoiceIn, _ tool.Env) (demo.Invoice, error) {
		text, err := os.ReadFile(filepath.Join(dir, demo.InvoiceFile(in.Number)))
		if err != nil {
			return demo.Invoice{}, err
		}
		var found demo.Invoice
		err = perdure.DecodeJSON(text, &found)
		return found, err
	})
}

// pay records a payment in the external ledger.
func pay(dir string) tool.Tool {
	spec := tool.Spec{Name: "pay", DisplayName: "Pay", Description: "Pays an invoice. Never call it twice.",
		Class: perdure.AtMostOnce}
	return tool.New(spec, func(_ context.Context, in demo.Invoice, env tool.Env) (map[string]int, error) {
		line := chaos.Line{Effect: in.Effect(), Class: string(perdure.AtMostOnce), Key: env.Call.Key, PID: os.Getpid()}
		return map[string]int{"paid": in.Amount}, appendLine(filepath.Join(dir, "ledger.jsonl"), line)
	})
}

// askAbove is the policy of the demo: large payments need approval.
func askAbove(_ context.Context, call tool.Call, _ perdure.Permission) (perdure.Decision, string, error) {
	if call.Tool != "pay" {
		return perdure.Undecided, "", nil
	}
	var in demo.Invoice
	if err := perdure.DecodeJSON(call.Args, &in); err != nil {
		return perdure.Undecided, "", err
	}
	if in.Amount > demo.AskAbove {
		return perdure.Ask, "", nil
	}
	return perdure.Undecided, "", nil
}
