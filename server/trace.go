package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracing returns a tracer whose spans go to an OpenTelemetry collector, as
// OTLP in JSON over HTTP, and a function that sends the rest when the
// server ends. The SDK's own exporter would link all of gRPC.
func Tracing(endpoint, version string, client *http.Client) (trace.Tracer, func(context.Context) error) {
	if client == nil {
		client = &http.Client{Timeout: 10 * time.Second}
	}
	e := &collector{url: strings.TrimSuffix(endpoint, "/") + "/v1/traces", client: client}
	about := resource.NewSchemaless(attribute.String("service.name", "tidemark"), attribute.String("service.version", version))
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e), sdktrace.WithResource(about))
	return p.Tracer("tidemark/server"), p.Shutdown
}

// collector sends spans to a collector. It is an sdktrace.SpanExporter.
type collector struct {
	url    string
	client *http.Client
}

func (c *collector) Shutdown(context.Context) error { return nil }

// The types of OTLP in JSON: ids in hexadecimal, 64-bit numbers as text.
type (
	otlpValue struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		ParentID   string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
		Status     otlpStatus      `json:"status"`
	}
	otlpStatus struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
)

// ExportSpans sends spans.
func (c *collector) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"resource":   map[string]any{"attributes": otlpAttributes(spans[0].Resource().Attributes())},
		"scopeSpans": []any{map[string]any{"scope": map[string]any{"name": spans[0].InstrumentationScope().Name}, "spans": otlpSpans(spans)}},
	}}})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", c.url, res.Status)
	}
	return nil
}

func otlpSpans(spans []sdktrace.ReadOnlySpan) []otlpSpan {
	out := make([]otlpSpan, len(spans))
	for i, s := range spans {
		out[i] = otlpSpan{
			TraceID: s.SpanContext().TraceID().String(), SpanID: s.SpanContext().SpanID().String(), Name: s.Name(), Kind: int(s.SpanKind()),
			Start: strconv.FormatInt(s.StartTime().UnixNano(), 10), End: strconv.FormatInt(s.EndTime().UnixNano(), 10),
			Attributes: otlpAttributes(s.Attributes()),
		}
		if s.Parent().SpanID().IsValid() {
			out[i].ParentID = s.Parent().SpanID().String()
		}
		// The SDK counts unset, error, ok; the wire unset, ok, error.
		out[i].Status = otlpStatus{Code: []int{0, 2, 1}[s.Status().Code], Message: s.Status().Description}
	}
	return out
}

func otlpAttributes(attrs []attribute.KeyValue) []otlpAttribute {
	out := make([]otlpAttribute, len(attrs))
	for i, a := range attrs {
		out[i].Key = string(a.Key)
		switch a.Value.Type() {
		case attribute.INT64:
			n := strconv.FormatInt(a.Value.AsInt64(), 10)
			out[i].Value.Int = &n
		case attribute.BOOL:
			b := a.Value.AsBool()
			out[i].Value.Bool = &b
		default:
			text := a.Value.String()
			out[i].Value.String = &text
		}
	}
	return out
}
