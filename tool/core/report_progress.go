package core

import (
	"context"
	_ "embed" // the tool description

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed report_progress.md
var reportProgressText string

type reportProgressIn struct {
	Message string   `json:"message" jsonschema:"What is happening, in one line."`
	Current *float64 `json:"current,omitempty" min:"0" jsonschema:"How much is done."`
	Total   float64  `json:"total,omitempty" min:"0" jsonschema:"The total amount. Absent: unknown."`
	Unit    string   `json:"unit,omitempty" jsonschema:"What is counted, for instance files."`
}

type reportProgressOut struct {
	Reported bool `json:"reported"`
}

// ReportProgress returns the tool that reports progress to people. Without a sink it does nothing.
func ReportProgress() tool.Tool {
	return tool.New(tool.Spec{
		Name:        "report_progress",
		DisplayName: "Report Progress",
		Narration:   tool.Narration{Started: "{message}", Completed: "{message}", Failed: "Could not report: {message}"},
		Description: described(reportProgressText),
		Class:       perdure.Idempotent,
		SessionOnly: true,
		Trusted:     true,
		Hints:       tool.Hints{Destructive: no(), Idempotent: yes()},
	}, func(_ context.Context, in reportProgressIn, env tool.Env) (reportProgressOut, error) {
		p := perdure.Progress{Current: in.Current, Label: in.Message}
		if in.Current != nil {
			p.Unit = in.Unit
		}
		if in.Total > 0 {
			p.Total = &in.Total
		}
		_ = tool.ReportProgress(env.Sink, p) // a report never makes a tool fail
		return reportProgressOut{Reported: true}, nil
	})
}
