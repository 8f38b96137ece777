/** Nodes of Pods in a cluster: all rules must hold. */
export interface NodePlacement {
  nodeSelector?: Record<string, string> | undefined;
  nodeAffinity?:
    { key: string; operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist'; values?: string[] | undefined }[] | undefined;
  tolerations?:
    | {
        key?: string | undefined;
        operator?: 'Equal' | 'Exists' | undefined;
        value?: string | undefined;
        effect?: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute' | undefined;
      }[]
    | undefined;
}

/** Nodes of the instances of a type, besides the rules of their region. */
export interface TypePlacement extends NodePlacement {
  /** Instead of that of the region. */
  priorityClass?: string | undefined;
}
