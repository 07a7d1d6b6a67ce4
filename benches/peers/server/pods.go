package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	protobufType = "application/vnd.kubernetes.protobuf"
	// Pods in a namespace, and pods of one owner.
	perNamespace, perOwner = 500, 3
	firstVersion           = 1_000_000_000
)

// An encoded pod in which some texts are replaced by others as long: so protobuf's lengths stay right.
type template struct {
	bytes  []byte
	places map[string][]int
}

func newTemplate(encoded []byte) template {
	t := template{encoded, map[string][]int{}}
	for _, text := range []string{"pod-0000000", "ns-000", "00000000-0000-4000", "aaaaaaaa-0000-4000", "1000000000"} {
		for from := 0; ; {
			at := bytes.Index(encoded[from:], []byte(text))
			if at < 0 {
				break
			}
			t.places[text] = append(t.places[text], from+at)
			from += at + len(text)
		}
	}
	return t
}

func (t template) render(number, version int) []byte {
	out := bytes.Clone(t.bytes)
	put := func(text, with string) {
		for _, at := range t.places[text] {
			copy(out[at:at+len(text)], with)
		}
	}
	put("pod-0000000", fmt.Sprintf("pod-%07d", number))
	put("ns-000", fmt.Sprintf("ns-%03d", number/perNamespace))
	put("00000000-0000-4000", fmt.Sprintf("%08x", number))
	put("aaaaaaaa-0000-4000", fmt.Sprintf("%08x", 0xa0000000+number/perOwner))
	put("1000000000", strconv.Itoa(version))
	return out
}

// The collection. Pod `n` is at versions[n]; the newest version is the collection's.
type pods struct {
	lock     sync.Mutex
	changed  *sync.Cond
	json     template
	proto    template // a runtime.Unknown's raw bytes
	versions []int
	version  int
	log      []int // numbers of the pods that were changed, by version
	expired  int   // how often all watches were ended
	watches  int
	lists    int
	next     int
}

func newPods(fixture []byte, count int) (*pods, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(fixture, &pod); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, fixture); err != nil {
		return nil, err
	}
	raw, err := pod.Marshal()
	if err != nil {
		return nil, err
	}
	p := &pods{json: newTemplate(compact.Bytes()), proto: newTemplate(raw), version: firstVersion, versions: make([]int, count)}
	p.changed = sync.NewCond(&p.lock)
	for n := range p.versions {
		p.versions[n] = firstVersion
	}
	return p, nil
}

func (p *pods) control(w http.ResponseWriter, r *http.Request) {
	p.lock.Lock()
	defer p.lock.Unlock()
	switch r.URL.Path {
	case "/control/change":
		count, _ := strconv.Atoi(r.URL.Query().Get("count"))
		for range count {
			p.version++
			p.versions[p.next] = p.version
			p.log = append(p.log, p.next)
			p.next = (p.next + 1) % len(p.versions)
		}
	case "/control/expire":
		p.expired++
	}
	p.changed.Broadcast()
	fmt.Fprintf(w, `{"watches": %d, "lists": %d}`, p.watches, p.lists)
}

func (p *pods) serve(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asProto := strings.Contains(r.Header.Get("Accept"), protobufType)
	if asProto {
		w.Header().Set("Content-Type", protobufType)
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	if watch := query.Get("watch"); watch == "true" || watch == "1" {
		p.watch(w, r, asProto)
		return
	}
	p.list(w, query.Get("limit"), query.Get("continue"), query.Get("resourceVersion"), asProto)
}

// A list; as in kube-apiserver a limit holds unless version 0 is asked for.
func (p *pods) list(w http.ResponseWriter, limit, from, version string, asProto bool) {
	p.lock.Lock()
	begin, _ := strconv.Atoi(from)
	end := len(p.versions)
	if most, _ := strconv.Atoi(limit); most > 0 && version != "0" && begin+most < end {
		end = begin + most
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(p.version)}
	if end < len(p.versions) {
		meta.Continue = strconv.Itoa(end)
		left := int64(len(p.versions) - end)
		meta.RemainingItemCount = &left
	} else {
		p.lists++
	}
	versions := append([]int(nil), p.versions[begin:end]...)
	p.lock.Unlock()
	if asProto {
		p.protoList(w, meta, begin, versions)
		return
	}
	header, _ := json.Marshal(meta)
	fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":%s,"items":[`, header)
	for n, version := range versions {
		if n > 0 {
			io.WriteString(w, ",")
		}
		w.Write(p.json.render(begin+n, version))
	}
	io.WriteString(w, "]}\n")
}

func (p *pods) protoList(w http.ResponseWriter, meta metav1.ListMeta, begin int, versions []int) {
	header, _ := meta.Marshal()
	list := append([]byte{0x0a}, binary.AppendUvarint(nil, uint64(len(header)))...)
	list = append(list, header...)
	for n, version := range versions {
		pod := p.proto.render(begin+n, version)
		list = append(list, 0x12)
		list = binary.AppendUvarint(list, uint64(len(pod)))
		list = append(list, pod...)
	}
	w.Write(unknown("PodList", list))
}

// What kube-apiserver wraps a protobuf object in.
func unknown(kind string, raw []byte) []byte {
	object := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
	out, _ := object.Marshal()
	return append([]byte("k8s\x00"), out...)
}

// Other objects than pods: bookmarks and errors.
func encode(object runtime.Object, kind string, asProto bool) []byte {
	var out bytes.Buffer
	if asProto {
		_ = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &out)
		return out.Bytes()
	}
	object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	_ = json.NewEncoder(&out).Encode(object)
	return bytes.TrimSpace(out.Bytes())
}

func frame(event string, object []byte, asProto bool) []byte {
	if !asProto {
		return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", event, object)
	}
	watch := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: object}}
	raw, _ := watch.Marshal()
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(raw)))
	return append(framed, raw...)
}

func (p *pods) event(kind string, number, version int, asProto bool) []byte {
	if asProto {
		return frame(kind, unknown("Pod", p.proto.render(number, version)), true)
	}
	return frame(kind, p.json.render(number, version), false)
}

func (p *pods) watch(w http.ResponseWriter, r *http.Request, asProto bool) {
	if asProto {
		w.Header().Set("Content-Type", protobufType+";stream=watch")
	}
	flusher := w.(http.Flusher)
	p.lock.Lock()
	expired, version := p.expired, p.version
	if from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion")); err == nil && from >= firstVersion {
		version = from
	}
	versions := append([]int(nil), p.versions...)
	p.lock.Unlock()
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for number, version := range versions {
			w.Write(p.event("ADDED", number, version, asProto))
		}
		bookmark := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(version),
			Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}
		w.Write(frame("BOOKMARK", encode(bookmark, "Pod", asProto), asProto))
		p.lock.Lock()
		p.lists++
		p.lock.Unlock()
	}
	flusher.Flush()
	go func() {
		<-r.Context().Done()
		p.changed.Broadcast()
	}()
	p.lock.Lock()
	p.watches++
	for r.Context().Err() == nil && p.expired == expired {
		if version >= p.version {
			p.changed.Wait()
			continue
		}
		batch := append([]int(nil), p.log[version-firstVersion:]...)
		p.lock.Unlock()
		for _, number := range batch {
			version++
			w.Write(p.event("MODIFIED", number, version, asProto))
		}
		flusher.Flush()
		p.lock.Lock()
	}
	p.watches--
	p.lock.Unlock()
	gone := &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonExpired, Code: http.StatusGone, Message: "too old resource version"}
	w.Write(frame("ERROR", encode(gone, "Status", asProto), asProto))
}
