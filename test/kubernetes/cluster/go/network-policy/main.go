// Enforces the NetworkPolicies of a cluster of one node with chains of iptables. They hang in the
// FORWARD hook of the mangle table, since kube-proxy accepts traffic of node ports in the filter table
// first, and in INPUT for what goes to the node; bridged traffic passes there by
// net.bridge.bridge-nf-call-iptables. Every change of a Pod, a Namespace or a policy computes all rules
// again, and writes them with one iptables-restore.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"os/exec"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// Mark of a packet that an address block with exceptions lets pass.
const passMark = "0x10000/0x10000"
const noMark = "0x0/0x10000"

type cluster struct {
	pods       []*core.Pod
	namespaces map[string]labels.Set
	policies   []*networking.NetworkPolicy
}

// peer is an address block: all others pass no rule of it.
type peer struct {
	block      string
	exceptions []string
}

func matches(selector *meta.LabelSelector, set labels.Set) bool {
	parsed, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(set)
}

func chainName(kind, key string) string {
	hash := sha256.Sum256([]byte(key))
	return "POLICY-" + kind + "-" + strings.ToUpper(hex.EncodeToString(hash[:6]))
}

func hasAddress(pod *core.Pod) bool { return pod.Status.PodIP != "" && !pod.Spec.HostNetwork }

func hasEnded(pod *core.Pod) bool {
	return pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
}

func (c *cluster) peersOf(namespace string, selectors []networking.NetworkPolicyPeer) (peers []peer) {
	for _, selector := range selectors {
		if selector.IPBlock != nil {
			peers = append(peers, peer{selector.IPBlock.CIDR, selector.IPBlock.Except})
			continue
		}
		for _, pod := range c.pods {
			inNamespace := pod.Namespace == namespace
			if selector.NamespaceSelector != nil {
				inNamespace = matches(selector.NamespaceSelector, c.namespaces[pod.Namespace])
			}
			isSelected := selector.PodSelector == nil || matches(selector.PodSelector, pod.Labels)
			if hasAddress(pod) && inNamespace && isSelected {
				peers = append(peers, peer{block: pod.Status.PodIP + "/32"})
			}
		}
	}
	return peers
}

// portMatches returns the matches of iptables for the ports of a rule.
func portMatches(ports []networking.NetworkPolicyPort, pod *core.Pod) (out []string) {
	if len(ports) == 0 {
		return []string{""}
	}
	for _, port := range ports {
		protocol := "tcp"
		if port.Protocol != nil {
			protocol = strings.ToLower(string(*port.Protocol))
		}
		match := "-p " + protocol
		if port.Port != nil {
			number := portNumber(*port.Port, pod)
			if number == 0 {
				continue
			}
			match += fmt.Sprintf(" -m %s --dport %d", protocol, number)
			if port.EndPort != nil {
				match += fmt.Sprintf(":%d", *port.EndPort)
			}
		}
		out = append(out, match)
	}
	return out
}

// portNumber returns 0 for a name that no port of the Pod has.
func portNumber(port intstr.IntOrString, pod *core.Pod) int {
	if port.Type == intstr.Int {
		return port.IntValue()
	}
	for _, container := range pod.Spec.Containers {
		for _, named := range container.Ports {
			if named.Name == port.StrVal {
				return int(named.ContainerPort)
			}
		}
	}
	return 0
}

// ruleset is what iptables-restore reads, apart from chains that are removed.
type ruleset struct{ chains, jumps, rules []string }

func (r *ruleset) add(format string, values ...any) {
	r.rules = append(r.rules, fmt.Sprintf(format, values...))
}

func (c *cluster) rules() *ruleset {
	r := &ruleset{}
	for _, pod := range c.pods {
		if !hasAddress(pod) || hasEnded(pod) {
			continue
		}
		c.isolate(r, pod, networking.PolicyTypeIngress, "-d", "-s")
		c.isolate(r, pod, networking.PolicyTypeEgress, "-s", "-d")
	}
	return r
}

// isolate adds the chain of a Pod and direction: each rule of a policy returns, the rest is dropped.
func (c *cluster) isolate(r *ruleset, pod *core.Pod, direction networking.PolicyType, own, other string) {
	chain := chainName(string(direction[:2]), pod.Namespace+"/"+pod.Name)
	isIsolated := false
	for _, policy := range c.policies {
		if policy.Namespace != pod.Namespace || !matches(&policy.Spec.PodSelector, pod.Labels) ||
			!slices.Contains(policy.Spec.PolicyTypes, direction) {
			continue
		}
		if !isIsolated {
			// The chain of the other end may have set the mark.
			r.add("-A %s -j MARK --set-xmark %s", chain, noMark)
		}
		isIsolated = true
		if direction == networking.PolicyTypeIngress {
			for _, rule := range policy.Spec.Ingress {
				c.allow(r, pod, chain, other, rule.From, rule.Ports)
			}
		} else {
			for _, rule := range policy.Spec.Egress {
				c.allow(r, pod, chain, other, rule.To, rule.Ports)
			}
		}
	}
	if isIsolated {
		r.chains = append(r.chains, chain)
		r.add("-A %s -j DROP", chain)
		r.jumps = append(r.jumps, fmt.Sprintf("-A POLICY %s %s/32 -j %s", own, pod.Status.PodIP, chain))
	}
}

func (c *cluster) allow(r *ruleset, pod *core.Pod, chain, other string,
	selectors []networking.NetworkPolicyPeer, ports []networking.NetworkPolicyPort) {
	for _, match := range portMatches(ports, pod) {
		if len(selectors) == 0 {
			r.add("-A %s %s -j RETURN", chain, match)
			continue
		}
		for _, from := range c.peersOf(pod.Namespace, selectors) {
			if len(from.exceptions) == 0 {
				r.add("-A %s %s %s %s -j RETURN", chain, other, from.block, match)
				continue
			}
			// In a chain of its own an exception hides no other rule.
			block := chainName("BLOCK", strings.Join(append([]string{chain, from.block, match}, from.exceptions...), " "))
			r.chains = append(r.chains, block)
			for _, exception := range from.exceptions {
				r.add("-A %s %s %s -j RETURN", block, other, exception)
			}
			r.add("-A %s -j MARK --set-xmark %s", block, passMark)
			r.add("-A %s %s %s %s -j %s", chain, other, from.block, match, block)
			r.add("-A %s -m mark --mark %s -j RETURN", chain, passMark)
		}
	}
}

// restoreInput replaces the chain POLICY and removes the chains of before that r does not have.
func (r *ruleset) restoreInput(before []string) string {
	slices.Sort(r.chains)
	chains := slices.Compact(r.chains)
	var b strings.Builder
	b.WriteString("*mangle\n:POLICY - [0:0]\n")
	for _, chain := range chains {
		fmt.Fprintf(&b, ":%s - [0:0]\n", chain)
	}
	gone := slices.DeleteFunc(slices.Clone(before), func(chain string) bool { return slices.Contains(chains, chain) })
	for _, chain := range gone {
		fmt.Fprintf(&b, ":%s - [0:0]\n", chain)
	}
	b.WriteString("-A POLICY -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN\n")
	for _, line := range append(slices.Clone(r.jumps), r.rules...) {
		b.WriteString(line + "\n")
	}
	for _, chain := range gone {
		fmt.Fprintf(&b, "-X %s\n", chain)
	}
	b.WriteString("COMMIT\n")
	return b.String()
}

func iptables(input string, command ...string) error {
	process := exec.Command(command[0], command[1:]...)
	process.Stdin = strings.NewReader(input)
	if output, err := process.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %v %s", command, err, output)
	}
	return nil
}

func write(input string) error {
	if err := iptables(input, "iptables-restore", "--wait", "--noflush"); err != nil {
		return err
	}
	// The name server of the node answers all Pods, as Pods of kube-system do elsewhere.
	toNode := []string{"INPUT", "-p", "tcp", "!", "--dport", "53", "-j", "POLICY"}
	for _, jump := range [][]string{{"FORWARD", "-j", "POLICY"}, toNode} {
		if iptables("", append([]string{"iptables", "-w", "-t", "mangle", "-C"}, jump...)...) == nil {
			continue
		}
		if err := iptables("", append([]string{"iptables", "-w", "-t", "mangle", "-A"}, jump...)...); err != nil {
			return err
		}
	}
	return nil
}

func byUID(a, b meta.Object) int { return cmp.Compare(a.GetUID(), b.GetUID()) }

func main() {
	kubeconfig := flag.String("kubeconfig", "", "")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() }}
	for _, informer := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), policies.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var last string
	var chains []string
	for range changed {
		time.Sleep(50 * time.Millisecond) // gathers a burst of changes
		// A lister of a synced informer returns no error.
		c := &cluster{namespaces: map[string]labels.Set{}}
		c.pods, _ = pods.Lister().List(labels.Everything())
		c.policies, _ = policies.Lister().List(labels.Everything())
		all, _ := namespaces.Lister().List(labels.Everything())
		for _, namespace := range all {
			c.namespaces[namespace.Name] = namespace.Labels
		}
		slices.SortFunc(c.pods, func(a, b *core.Pod) int { return byUID(a, b) })
		slices.SortFunc(c.policies, func(a, b *networking.NetworkPolicy) int { return byUID(a, b) })
		r := c.rules()
		input := r.restoreInput(chains)
		if input == last {
			continue
		}
		if err := write(input); err != nil {
			log.Print(err)
			time.AfterFunc(time.Second, notify)
			continue
		}
		last, chains = input, r.chains
		log.Printf("%d policies, %d Pods, %d rules", len(c.policies), len(c.pods), len(r.rules))
	}
}
