/** Next step of each `diagnosisReason`, for clients that show more than the cause. */
export { diagnoses } from '../../domain/compute/instance-states.ts';
