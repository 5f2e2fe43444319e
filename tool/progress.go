package tool

import "github.com/perdure/perdure"

// ProgressSink is a sink that accepts progress with a unit, or with a label alone. The sinks of
// this runtime are ProgressSinks.
type ProgressSink interface {
	// ReportProgress reports progress, as [Sink.Progress] does.
	ReportProgress(p perdure.Progress) perdure.Cause
}

// ReportProgress reports progress with a unit, or with a label and no numbers. A sink that is not
// a [ProgressSink] receives the unit as a part of the label, and a report without numbers as a
// status.
//
//	tool.ReportProgress(env.Sink, perdure.Progress{Current: new(3.0), Total: new(8.0), Unit: "files", Label: "compiling"})
func ReportProgress(to Sink, p perdure.Progress) perdure.Cause {
	if full, ok := to.(ProgressSink); ok {
		return full.ReportProgress(p)
	}
	if p.Current == nil {
		return to.Status(p.String())
	}
	total := 0.0
	if p.Total != nil {
		total = *p.Total
	}
	label := p.Label
	switch {
	case label == "":
		label = p.Unit
	case p.Unit != "":
		label = p.Unit + " · " + label
	}
	return to.Progress(*p.Current, total, label)
}
